-- `silly.net.tls`: connections that are encrypted; what scripts do with them is what they do with those of
-- `silly.net.tcp`.
local native = ...

local tcp = require("silly.net.tcp")
local errno = require("silly.errno")

local tls = {}
for _, name in ipairs({
  "read", "readline", "write", "close", "limit", "isalive", "unreadbytes", "recvsize", "unsentbytes", "sendsize",
}) do
  tls[name] = tcp[name]
end

local listener = {}
local listener_meta = { __index = listener }

-- Names of OpenSSL for suites of TLS 1.2. Those of TLS 1.3 are IANA's everywhere.
local suites = {
  ["ECDHE-ECDSA-AES256-GCM-SHA384"] = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
  ["ECDHE-ECDSA-AES128-GCM-SHA256"] = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
  ["ECDHE-ECDSA-CHACHA20-POLY1305"] = "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
  ["ECDHE-RSA-AES256-GCM-SHA384"] = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
  ["ECDHE-RSA-AES128-GCM-SHA256"] = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
  ["ECDHE-RSA-CHACHA20-POLY1305"] = "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
}

local function parts(settings, level)
  local pairs_of_texts, ciphers = {}, nil
  for _, pair in ipairs(settings.certs or {}) do
    if type(pair.cert) ~= "string" or type(pair.key) ~= "string" then
      error("tls.listen: certs are tables with cert and key, which are PEM texts", level + 1)
    end
    pairs_of_texts[#pairs_of_texts + 1] = pair.cert
    pairs_of_texts[#pairs_of_texts + 1] = pair.key
  end
  if settings.ciphers then
    ciphers = {}
    for name in settings.ciphers:gmatch("[^:, ]+") do
      ciphers[#ciphers + 1] = suites[name] or name
    end
  end
  return pairs_of_texts, settings.alpnprotos, ciphers
end

function listener:close()
  return native.close_listener(self[1])
end

function listener:reload(settings)
  local old, new = self.settings, {}
  for _, name in ipairs({ "certs", "alpnprotos", "ciphers" }) do
    new[name] = settings and settings[name] or old[name]
  end
  local good, problem = native.tls_replace(self.server, parts(new, 2))
  if not good then
    return false, problem
  end
  self.settings = new
  return true
end

-- What a connection has beside those that are not encrypted.
local function equip(conn, protocol)
  conn.alpnproto = function()
    return protocol
  end
  return conn
end

function tls.listen(settings)
  if type(settings) ~= "table" or type(settings.addr) ~= "string" then
    error("tls.listen missing addr", 2)
  end
  local accept = settings.accept or settings.callback
  if type(accept) ~= "function" then
    error("tls.listen missing accept", 2)
  end
  local server, problem = native.tls_server(parts(settings, 2))
  if not server then
    return nil, problem
  end
  local object, number, bound = native.listen(settings.addr, function(conn, addr, protocol)
    return accept(equip(conn, protocol), addr)
  end, server)
  if not object then
    return nil, number
  end
  return setmetatable({
    object,
    fd = number,
    addr = bound,
    server = server,
    settings = { certs = settings.certs, alpnprotos = settings.alpnprotos, ciphers = settings.ciphers },
  }, listener_meta)
end

-- Clients are made of many certificates: those in use are shared.
local clients = setmetatable({}, { __mode = "v" })

local function client(host, settings)
  local protocols = settings.alpnprotos or settings.alpn or {}
  local trust = settings.insecure and "insecure" or settings.ca or "system"
  local key = host .. "\0" .. table.concat(protocols, "\0") .. "\0\0" .. trust
  local found = clients[key]
  if found then
    return found
  end
  local made, problem = native.tls_client(host, protocols, settings.ca, settings.insecure)
  clients[key] = made
  return made, problem
end

function tls.connect(addr, settings)
  if type(addr) ~= "string" then
    error("tls.connect missing addr", 2)
  end
  settings = settings or {}
  local host = settings.hostname or settings.server or addr:match("^(.*):[^:]*$") or addr
  if host == "" then
    host = "127.0.0.1"
  end
  local made, problem = client(host, settings)
  if not made then
    return nil, errno.TLS, problem
  end
  local conn, protocol, why = native.connect(addr, settings.timeout, settings.bind, made)
  if not conn then
    return nil, protocol, why
  end
  return equip(conn, protocol)
end

return tls
