-- `silly.net.http`: servers and clients of HTTP/1.1 and HTTP/2.
local native = ...

local silly = require("silly")
local task = require("silly.task")
local tcp = require("silly.net.tcp")
local time = require("silly.time")
local errno = require("silly.errno")
local logger = require("silly.logger")
local content = require("silly.net.http.content")
local sender = require("silly.net.http.sender")
local session = require("silly.net.http.session")

-- Heads and content that is read as a whole, in bytes; times in milliseconds.
local HEAD, CONTENT = 64 * 1024, 8 * 1024 * 1024
local IDLE, POOLED, POOL = 60000, 10000, 16

local reasons = {
  [100] = "Continue", [101] = "Switching Protocols", [200] = "OK", [201] = "Created", [202] = "Accepted",
  [204] = "No Content", [206] = "Partial Content", [301] = "Moved Permanently", [302] = "Found", [303] = "See Other",
  [304] = "Not Modified", [307] = "Temporary Redirect", [308] = "Permanent Redirect", [400] = "Bad Request",
  [401] = "Unauthorized", [403] = "Forbidden", [404] = "Not Found", [405] = "Method Not Allowed",
  [406] = "Not Acceptable", [408] = "Request Timeout", [409] = "Conflict", [410] = "Gone", [411] = "Length Required",
  [412] = "Precondition Failed", [413] = "Content Too Large", [414] = "URI Too Long",
  [415] = "Unsupported Media Type", [417] = "Expectation Failed", [422] = "Unprocessable Content",
  [426] = "Upgrade Required", [429] = "Too Many Requests", [431] = "Request Header Fields Too Large",
  [500] = "Internal Server Error", [501] = "Not Implemented", [502] = "Bad Gateway", [503] = "Service Unavailable",
  [504] = "Gateway Timeout",
}

local function date()
  return "date: " .. sender.date() .. "\r\n"
end

-- What both sides have in common.

local stream = {}

function stream:write(data)
  if not self.out then
    return false, errno.NOTCONN
  end
  return self.out:write(data)
end

function stream:flush()
  if not self.out then
    return false, errno.NOTCONN
  end
  return self.out:flush()
end

function stream:read(n)
  local good, problem = self:receive()
  if not good then
    return nil, problem
  end
  if not n then
    return self.content:read()
  end
  local pieces, left = {}, n
  while left > 0 do
    local piece, why = self.content:read(left)
    if not piece then
      if why == errno.EOF and #pieces > 0 then
        break
      end
      return nil, why
    end
    pieces[#pieces + 1] = piece
    left = left - #piece
  end
  return table.concat(pieces)
end

function stream:readall(limit)
  local good, problem = self:receive()
  if not good then
    return nil, problem
  end
  return self.content:readall(limit or self.limit)
end

-- The server's side.

local server_stream = setmetatable({}, { __index = stream })
local server_meta = { __index = server_stream }

-- Content may be read; who waits to be told so is told now.
function server_stream:receive()
  if self.expect then
    self.expect = nil
    if not self.out then
      if self.channel then
        self.channel:invite()
      else
        self.conn:write("HTTP/1.1 100 Continue\r\n\r\n")
      end
    end
  end
  return true
end

function server_stream:readheader()
  return true, self.header
end
server_stream.waitresponse = server_stream.readheader

function server_stream:respond(status, header, close)
  if self.out then
    return false, errno.ISCONN
  end
  if type(status) ~= "number" or status % 1 ~= 0 or status < 200 or status > 999 then
    error("bad argument #1 to 'respond': a status from 200 on is expected", 2)
  end
  local empty = (status == 204 or status == 304) and "nothing" or (self.method == "HEAD" and "head") or nil
  local given = false
  for name in pairs(header or {}) do
    given = given or tostring(name):lower() == "date"
  end
  if self.channel then
    local fields = sender.pairs(header, 2)
    if not given then
      fields[#fields + 1] = "date"
      fields[#fields + 1] = sender.date()
    end
    self.out = self.channel:answer(status, fields, { header = header, empty = empty, method = self.method }, 2)
    self.status = status
    if close then
      return self.out:finish()
    end
    return true
  end
  -- What the client sends and nobody has asked for cannot be told from the next request.
  if self.expect then
    self.keepalive = false
  end
  local first = "HTTP/1.1 " .. status .. " " .. (reasons[status] or "") .. "\r\n" .. (given and "" or date())
  self.status = status
  self.out = sender.new(first, header, {
    conn = self.conn,
    empty = empty,
    chunks = self.version == "HTTP/1.1",
    connection = not self.keepalive and "close" or (self.version == "HTTP/1.0" and "keep-alive") or nil,
  }, 2)
  if close then
    return self.out:finish()
  end
  return true
end

function server_stream:closewrite(data, trailer)
  if not self.out then
    self:respond(200, {})
  end
  return self.out:finish(data, trailer, 2)
end

function server_stream:close(data)
  if self.upgraded then
    return self.conn:close()
  end
  if self.out and self.out.ended then
    return true
  end
  return self:closewrite(data)
end

local function refuse(conn, status, word)
  local text = word .. "\n"
  conn:write({
    "HTTP/1.1 ", status, " ", reasons[status] or "", "\r\n", date(), "content-type: text/plain\r\ncontent-length: ",
    #text, "\r\nconnection: close\r\n\r\n", text,
  })
  conn:close()
end

-- One request; says whether another one may follow.
local function exchange(conn, settings, head)
  local request, status, word = native.http_request(head)
  if not request then
    refuse(conn, status, word)
    return false
  end
  request.conn = conn
  request.limit = settings.bodylimit or CONTENT
  request.remoteaddr = conn.remoteaddr
  request.scheme = settings.tls and "https" or "http"
  request.content = content.new(conn, request.length, settings.timeout or IDLE)
  setmetatable(request, server_meta)
  local good, problem = silly.pcall(settings.handler, request)
  if not good then
    logger.error(problem)
    if not request.out then
      request.keepalive = false
      request:respond(500, { ["content-type"] = "text/plain" })
      request:closewrite("Internal Server Error\n")
      conn:close()
      return false
    end
  end
  if request.upgraded then
    conn:close()
    return false
  end
  if not request.out then
    request:respond(500, {}, true)
    logger.error("http: the handler of " .. request.method .. " " .. request.path .. " gave no answer")
  end
  local out = request.out
  if not good and not out.ended then
    -- Half an answer must not look like a whole one.
    native.abort(conn)
    return false
  end
  if not out.ended then
    out:finish()
  end
  if out.broken then
    native.abort(conn)
    return false
  end
  if out.closes or not request.keepalive or not request.content:drop() then
    conn:close()
    return false
  end
  return true
end

-- One request of a connection that carries many at once.
local function exchange_of(conn, settings)
  return function(request, channel)
    request.conn, request.channel, request.content, request.trailer = conn, channel, channel, channel.trailer
    request.limit = settings.bodylimit or CONTENT
    request.remoteaddr = conn.remoteaddr
    request.scheme = settings.tls and "https" or "http"
    setmetatable(request, server_meta)
    local good, problem = silly.pcall(settings.handler, request)
    if not good then
      logger.error(problem)
      if not request.out then
        request:respond(500, { ["content-type"] = "text/plain" })
        request:closewrite("Internal Server Error\n")
      end
    elseif not request.out and not channel.gone then
      request:respond(500, {}, true)
      logger.error("http: the handler of " .. request.method .. " " .. request.path .. " gave no answer")
    end
    local out = request.out
    if good and out and not out.ended then
      out:finish()
    end
    if channel.gone or (out and (out.broken or not out.ended)) then
      -- Half an answer must not look like a whole one.
      channel:reset(session.INTERNAL_ERROR)
    end
    channel:forget()
  end
end

-- What clients of HTTP/2 begin with (RFC 9113, 3.4), as far as it looks like a head.
local PREFACE = "PRI * HTTP/2.0\r\n\r\n"

local function serve(settings)
  local timeout = settings.timeout or IDLE
  return function(conn)
    if conn.alpnproto and conn.alpnproto() == "h2" then
      return session.serve(conn, "", timeout, exchange_of(conn, settings))
    end
    local first = not settings.tls
    repeat
      local head, problem = conn:read("\r\n\r\n", timeout, HEAD)
      if first and head == PREFACE then
        return session.serve(conn, head, timeout, exchange_of(conn, settings))
      end
      first = false
      if not head then
        if problem == errno.NOBUFS then
          refuse(conn, 431, "head_too_large")
        elseif problem == errno.TIMEDOUT and conn:unreadbytes() > 0 then
          refuse(conn, 408, "timed_out")
        else
          conn:close()
        end
        return
      end
    until not exchange(conn, settings, head)
  end
end

local http = {}

function http.listen(settings)
  if type(settings) ~= "table" or type(settings.addr) ~= "string" then
    error("http.listen missing addr", 2)
  end
  if type(settings.handler) ~= "function" then
    error("http.listen missing handler", 2)
  end
  local accept = serve(settings)
  if settings.tls then
    local tls = require("silly.net.tls")
    return tls.listen({
      addr = settings.addr,
      certs = settings.certs,
      ciphers = settings.ciphers,
      alpnprotos = settings.alpnprotos or { "http/1.1" },
      accept = accept,
    })
  end
  return tcp.listen({ addr = settings.addr, accept = accept, backlog = settings.backlog })
end

-- The client's side.

local client_stream = setmetatable({}, { __index = stream })
local client_meta = { __index = client_stream }
local client = {}
local client_of_meta = { __index = client }

local function parse(url)
  if type(url) ~= "string" then
    return nil, "a URL is expected"
  end
  local scheme, authority, rest = url:match("^(%a+)://([^/?#]*)([^#]*)")
  scheme = scheme and scheme:lower()
  if scheme ~= "http" and scheme ~= "https" then
    return nil, "the URL begins with neither http:// nor https://"
  end
  if authority == "" or authority:find("[@%s%c]") or rest:find("[%s%c]") then
    return nil, "the URL has no host, or something that no URL holds"
  end
  local host, port = authority:match("^(%[[%x:.]+%]):?(%d*)$")
  if not host then
    host, port = authority:match("^([^:%[%]]+):?(%d*)$")
  end
  if not host then
    return nil, "the host of the URL is none"
  end
  port = port ~= "" and port or (scheme == "https" and "443" or "80")
  if rest:sub(1, 1) ~= "/" then
    rest = "/" .. rest
  end
  return { scheme = scheme, host = host, addr = host .. ":" .. port, authority = authority, target = rest }
end

http.parseurl = parse

local function connect(self, url)
  local settings = self.settings
  if url.scheme == "https" then
    return require("silly.net.tls").connect(url.addr, {
      hostname = settings.hostname or url.host,
      alpnprotos = settings.upgrade and { "http/1.1" } or settings.alpnprotos or { "h2", "http/1.1" },
      timeout = settings.connecttimeout or settings.timeout or IDLE,
      bind = settings.bind,
      ca = settings.ca,
      insecure = settings.insecure,
    })
  end
  return tcp.connect(url.addr, {
    timeout = settings.connecttimeout or settings.timeout or IDLE,
    bind = settings.bind,
  })
end

-- Closes connections that nobody has used for a while.
local function sweep(self)
  local now, left = time.monotonic(), false
  for key, idle in pairs(self.idle) do
    while idle[1] and now - idle[1].since >= POOLED do
      table.remove(idle, 1).conn:close()
    end
    if idle[1] then
      left = true
    else
      self.idle[key] = nil
    end
  end
  for key, shared in pairs(self.sessions) do
    if shared:isopen() and not shared:isidle(now - POOLED) then
      left = true
    else
      self.sessions[key] = nil
      shared:retire()
    end
  end
  self.sweeping = left
  if left then
    time.after(POOLED, sweep, self)
  end
end

local function sweep_later(self)
  if not self.sweeping then
    self.sweeping = true
    time.after(POOLED, sweep, self)
  end
end

local function give_back(self, key, conn)
  local idle = self.idle[key] or {}
  if #idle >= POOL or not conn:isalive() or conn:unreadbytes() > 0 then
    conn:close()
    return
  end
  self.idle[key] = idle
  idle[#idle + 1] = { conn = conn, since = time.monotonic() }
  sweep_later(self)
end

local function take(self, key)
  local idle = self.idle[key]
  while idle and #idle > 0 do
    local conn = table.remove(idle).conn
    if conn:isalive() and conn:unreadbytes() == 0 then
      return conn
    end
    conn:close()
  end
end

-- What may be sent again if a connection that had been used before turns out to be gone (RFC 9112, 9.3.1).
local repeatable = { GET = true, HEAD = true, OPTIONS = true }

-- The connection of HTTP/2 that requests to this place share, if there is one; nil and a problem if one was being made and
-- was not. Who comes while it is made waits to share it.
local function share(self, key)
  local shared = self.sessions[key]
  if shared and shared:isopen() then
    return shared
  end
  self.sessions[key] = nil
  local queue = self.opening[key]
  if not queue then
    return nil
  end
  queue[#queue + 1] = task.running()
  local found = task.wait()
  return found.session, found.problem, found.why
end

-- A connection of HTTP/2, or, behind nil, one of HTTP/1.1 and whether it has been used before.
local function reach(self, url, key, fresh)
  local shares = url.scheme == "https" and not self.settings.upgrade
  if shares then
    local shared, problem, why = share(self, key)
    if shared then
      return shared
    elseif problem then
      return nil, nil, problem, why
    end
  end
  local pooled = not fresh and take(self, key)
  if pooled then
    return nil, pooled, true
  end
  local queue, found = nil, {}
  if shares and not self.opening[key] then
    queue = {}
    self.opening[key] = queue
  end
  local conn, problem, why = connect(self, url)
  if not conn then
    found.problem, found.why = problem, why
  elseif conn.alpnproto and conn.alpnproto() == "h2" then
    found.session = session.connect(conn, self.settings.timeout or IDLE)
    self.sessions[key] = found.session
    sweep_later(self)
  end
  if queue then
    self.opening[key] = nil
    for _, waiting in ipairs(queue) do
      task.wakeup(waiting, found)
    end
  end
  if found.session then
    return found.session
  end
  return nil, conn, conn and false or problem, why
end

-- A stream of another connection, for a request that was not sent yet.
local function channel_again(self)
  local shared, conn, problem = reach(self.client, self.url, self.key, true)
  if not shared then
    if conn then
      -- The server speaks something else by now.
      conn:close()
    end
    return nil, problem or errno.CONNRESET
  end
  self.channel = shared:channel()
  return self.channel
end

local function open(self, fresh)
  local shared, conn, pooled, why = reach(self.client, self.url, self.key, fresh)
  local none = not (self.method == "POST" or self.method == "PUT" or self.method == "PATCH")
  if shared then
    self.channel, self.remoteaddr, self.version = shared:channel(), shared.conn.remoteaddr, "HTTP/2"
    self.pooled = true
    local parts = { self.method, self.url.scheme, self.host or self.url.authority, self.url.target }
    self.out = self.channel:ask(parts, { header = self.request_header, none = none }, function()
      return channel_again(self)
    end, 3)
    return true
  elseif not conn then
    return nil, pooled, why
  end
  self.channel, self.version = nil, nil
  self.conn, self.pooled, self.remoteaddr = conn, pooled, conn.remoteaddr
  self.out = sender.new(self.first, self.request_header, {
    conn = conn,
    chunks = true,
    none = none,
    connection = self.connection,
  }, 3)
  return true
end

function client:request(method, url, header, close)
  if type(method) ~= "string" or not method:match("^[%w!#$%%&'*+.^_`|~-]+$") or method == "CONNECT" then
    error("bad argument #1 to 'request': a method is expected", 2)
  end
  local target, problem = parse(url)
  if not target then
    return nil, problem
  end
  local first = method .. " " .. target.target .. " HTTP/1.1\r\n"
  local host
  for name, value in pairs(header or {}) do
    host = host or (tostring(name):lower() == "host" and tostring(value) or nil)
  end
  if not host then
    first = first .. "host: " .. target.authority .. "\r\n"
  end
  local made = setmetatable({
    client = self,
    method = method,
    url = target,
    key = target.scheme .. "://" .. target.addr,
    first = first,
    host = host,
    request_header = header,
    connection = self.settings.upgrade and "upgrade" or nil,
    limit = self.settings.bodylimit or CONTENT,
    timeout = self.settings.timeout or IDLE,
  }, client_meta)
  local good, why, exactly = open(made, self.settings.upgrade)
  if not good then
    return nil, why, exactly
  end
  if close then
    made:closewrite()
  end
  return made
end

function client_stream:write(data)
  self.written = true
  return self.out:write(data)
end

function client_stream:closewrite(data, trailer)
  self.written = self.written or (data ~= nil and data ~= "")
  return self.out:finish(data, trailer, 2)
end

-- Reads the head of the answer, interim ones aside.
local function receive(self)
  local head, problem
  repeat
    head, problem = self.conn:read("\r\n\r\n", self.timeout, HEAD)
    if not head then
      return nil, problem
    end
    head, problem = native.http_response(head, self.method)
    if not head then
      return nil, "the answer is no HTTP: " .. problem
    end
  until not head.interim
  return head
end

local function head_of(self)
  if self.channel then
    return self.channel:receive()
  end
  return receive(self)
end

local function give_up(self)
  if self.channel then
    self.channel:reset(session.CANCEL)
  else
    self.conn:close()
  end
end

-- Whether a request without content may be sent once more: nobody has acted on it, or that makes no difference and it was
-- the connection that went.
local function is_repeatable(self, problem)
  if self.written or problem == errno.TIMEDOUT then
    return false
  end
  if self.channel then
    return self.channel.refused or (repeatable[self.method] and self.channel.session.over)
  end
  return self.pooled and repeatable[self.method] and self.conn:unreadbytes() == 0
end

function client_stream:receive()
  if self.status then
    return true
  end
  if self.problem then
    return false, self.problem
  end
  if not self.out.ended then
    local good, problem = self.out:finish()
    if not good and self.out.broken then
      self.problem = problem
      give_up(self)
      return false, problem
    end
  end
  local head, problem = head_of(self)
  if not head and is_repeatable(self, problem) then
    give_up(self)
    if open(self, true) and self.out:finish() then
      head, problem = head_of(self)
    end
  end
  if not head then
    self.problem = problem
    give_up(self)
    return false, problem
  end
  self.status, self.header, self.version = head.status, head.header, head.version
  self.keepalive = head.keepalive and not self.out.broken
  if self.channel then
    self.content, self.trailer = self.channel, self.channel.trailer
  else
    self.content = content.new(self.conn, head.length, self.timeout)
  end
  return true
end

function client_stream:readheader()
  local good, problem = self:receive()
  if not good then
    return nil, problem
  end
  return self.status, self.header
end
client_stream.waitresponse = client_stream.readheader

-- The connection is used again if the answer was read to its end.
function client_stream:close()
  if self.closed then
    return true
  end
  self.closed = true
  local conn, channel = self.conn, self.channel
  if channel then
    if not (channel.ended and self.out.ended) then
      channel:reset(session.CANCEL)
    end
    channel:forget()
  elseif self.content and self.content.done and self.keepalive and self.out.ended and self.status ~= 101 then
    give_back(self.client, self.key, conn)
  else
    conn:close()
  end
  return true
end

local function whole(self, method, url, header, body)
  local made, problem, why = self:request(method, url, header)
  if not made then
    if why then
      return nil, problem, why
    end
    return nil, problem
  end
  local good, status, head, text
  good, problem = made:closewrite(body)
  -- A server may answer and close before it has read everything.
  status, head = made:readheader()
  if not status then
    made:close()
    return nil, good and head or problem or head
  end
  text, problem = made:readall()
  made:close()
  if not text then
    return nil, problem
  end
  return { status = status, header = head, body = text, version = made.version }
end

function client:get(url, header)
  return whole(self, "GET", url, header)
end

function client:post(url, header, body)
  return whole(self, "POST", url, header, body or "")
end

function client:close()
  for _, idle in pairs(self.idle) do
    for _, entry in ipairs(idle) do
      entry.conn:close()
    end
  end
  for _, shared in pairs(self.sessions) do
    shared:retire()
  end
  self.idle, self.sessions = {}, {}
end

function http.newclient(settings)
  return setmetatable({ settings = settings or {}, idle = {}, sessions = {}, opening = {} }, client_of_meta)
end

local usual = http.newclient()

function http.get(url, header)
  return usual:get(url, header)
end

function http.post(url, header, body)
  return usual:post(url, header, body)
end

function http.request(method, url, header, close)
  return usual:request(method, url, header, close)
end

return http
