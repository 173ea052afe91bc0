// Two ways of reading a path in Node: by WHATWG's URL, and as Express does it, the raw path without case.
const http = require("node:http");

const [, , address, way] = process.argv;
const [host, port] = address.split(":");

function isProtected(target) {
  if (way === "express") {
    // app.use("/admin", ...): a prefix of whole segments, case does not count.
    return /^\/admin(?:\/|$)/i.test(target.split("?")[0]);
  }
  const path = decodeURIComponent(new URL(target, "http://localhost").pathname);
  return path === "/admin" || path.startsWith("/admin/");
}

http
  .createServer((request, response) => {
    let secret;
    try {
      secret = isProtected(request.url);
    } catch {
      response.writeHead(400);
      response.end("no path");
      return;
    }
    response.end(secret ? "the secret of the admin" : "open");
  })
  .listen(Number(port), host);
