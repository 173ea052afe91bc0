-- `silly.net.websocket`: RFC 6455 over streams of `silly.net.http`.
local native = ...

local http = require("silly.net.http")
local errno = require("silly.errno")
local base64 = require("silly.encoding.base64")

local byte, char, floor = string.byte, string.char, math.floor

local names = { [0] = "continuation", [1] = "text", [2] = "binary", [8] = "close", [9] = "ping", [10] = "pong" }
local codes = { text = 1, binary = 2, close = 8, ping = 9, pong = 10 }
-- Largest message that is put together, and largest frame that is sent.
local LARGEST, FRAME = 16 * 1024 * 1024, 64 * 1024

local socket = {}
local meta = { __index = socket }

local function wrap(conn, stream, client)
  return setmetatable({ conn = conn, stream = stream, client = client, parts = nil, length = 0 }, meta)
end

local function head(first, length, masked)
  local mask = masked and 128 or 0
  if length < 126 then
    return char(first, mask + length)
  elseif length < 65536 then
    return char(first, mask + 126, floor(length / 256), length % 256)
  end
  local bytes = {}
  for index = 8, 1, -1 do
    bytes[index] = length % 256
    length = floor(length / 256)
  end
  return char(first, mask + 127, unpack(bytes))
end

local function send(self, code, final, data)
  local first = code + (final and 128 or 0)
  if not self.client then
    return self.conn:write({ head(first, #data, false), data })
  end
  -- RFC 6455, 5.3: what a client sends is masked, with a key that nobody can guess.
  local key = native.random(4)
  return self.conn:write({ head(first, #data, true), key, native.mask(data, key) })
end

function socket:write(data, kind)
  local code = codes[kind or "binary"]
  if not code then
    error("bad argument #2 to 'write': text, binary, ping, pong or close is expected", 2)
  end
  data = data or ""
  if code >= 8 and #data > 125 then
    return false, errno.MSGSIZE
  end
  if self.over then
    return false, errno.CLOSED
  end
  if code == 8 then
    self.over = true
  end
  local at = 1
  repeat
    local piece = data:sub(at, at + FRAME - 1)
    local final = at + #piece > #data
    local good, problem = send(self, at == 1 and code or 0, final, piece)
    if not good then
      return false, problem
    end
    at = at + #piece
  until final
  return true
end

-- The peer breaks a rule: it is told which kind (RFC 6455, 7.4.1), and nothing more is read.
local function refuse(self, code, word)
  self.problem = word
  if not self.over then
    self.over = true
    send(self, 8, true, char(floor(code / 256), code % 256))
  end
  self.conn:close()
  return nil, word
end

local function frame(self)
  local conn = self.conn
  local start, problem = conn:read(2)
  if not start then
    return nil, problem
  end
  local first, second = byte(start, 1, 2)
  local final, code = first >= 128, first % 16
  if floor(first / 16) % 8 ~= 0 or not names[code] then
    return refuse(self, 1002, "a frame of an unknown kind")
  end
  local masked, length = second >= 128, second % 128
  if masked == (self.client or false) then
    return refuse(self, 1002, "a frame is masked that must not be, or is not")
  end
  if code >= 8 and (length > 125 or not final) then
    return refuse(self, 1002, "a control frame that is too long, or in parts")
  end
  if length == 126 then
    local bytes, why = conn:read(2)
    if not bytes then
      return nil, why
    end
    length = byte(bytes, 1) * 256 + byte(bytes, 2)
  elseif length == 127 then
    local bytes, why = conn:read(8)
    if not bytes then
      return nil, why
    end
    length = 0
    for index = 1, 8 do
      length = length * 256 + byte(bytes, index)
    end
  end
  if length + (code < 8 and self.length or 0) > LARGEST then
    return refuse(self, 1009, "a message is too large")
  end
  local key, why = nil, nil
  if masked then
    key, why = conn:read(4)
    if not key then
      return nil, why
    end
  end
  local data
  data, why = conn:read(length)
  if not data then
    return nil, why
  end
  return key and native.mask(data, key) or data, code, final
end

-- A message and what it is. What belongs to the connection itself (ping, pong, close) comes between messages as well as between
-- their parts.
function socket:read()
  if self.problem then
    return nil, self.problem
  end
  while true do
    local data, code, final = frame(self)
    if not data then
      self.problem = code
      return nil, code, self.parts and table.concat(self.parts) or nil
    end
    if code >= 8 then
      if code == 8 then
        self.problem = errno.EOF
        if #data == 1 or (#data > 2 and not native.utf8(data:sub(3))) then
          return refuse(self, 1002, "a broken close frame")
        end
        -- RFC 6455, 5.5.1: it is answered with the same status.
        if not self.over then
          self.over = true
          send(self, 8, true, data:sub(1, 2))
        end
      end
      return data, names[code]
    end
    if (code == 0) ~= (self.parts ~= nil) then
      return refuse(self, 1002, "a part of a message that was not begun, or not ended")
    end
    if code ~= 0 then
      self.parts, self.code, self.length = {}, code, 0
    end
    self.parts[#self.parts + 1] = data
    self.length = self.length + #data
    if final then
      local whole, kind = table.concat(self.parts), names[self.code]
      self.parts, self.length = nil, 0
      if kind == "text" and not native.utf8(whole) then
        return refuse(self, 1007, "a text that is no UTF-8")
      end
      return whole, kind
    end
  end
end

function socket:close()
  if not self.over then
    self.over = true
    send(self, 8, true, "\3\232")
  end
  return self.conn:close()
end

function socket:isalive()
  return not self.problem and not self.over and self.conn:isalive()
end

local function lists(value, token)
  for part in (value or ""):gmatch("[^,]+") do
    if part:match("^%s*(.-)%s*$"):lower() == token then
      return true
    end
  end
  return false
end

-- RFC 6455, 4.2.2.
local function answer(key)
  return base64.encode(native.hash("sha1", key .. "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
end

local websocket = {}

function websocket.upgrade(stream)
  local header = stream.header
  local key = header["sec-websocket-key"]
  if stream.out then
    return nil, "the request was answered already"
  end
  if stream.method ~= "GET" or not lists(header.upgrade, "websocket") or not lists(header.connection, "upgrade") then
    return nil, "the request asks for no WebSocket"
  end
  if header["sec-websocket-version"] ~= "13" then
    stream:respond(426, { ["sec-websocket-version"] = "13" }, true)
    return nil, "the client speaks another version"
  end
  local bytes = key and base64.decode(key)
  if not bytes or #bytes ~= 16 then
    stream:respond(400, {}, true)
    return nil, "the key of the client is none"
  end
  stream.upgraded = true
  stream.conn:write({
    "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-accept: ",
    answer(key),
    "\r\n\r\n",
  })
  return wrap(stream.conn, stream, false)
end

function websocket.connect(url, header, settings)
  local rest, secure = tostring(url):match("^[wW][sS](://.*)$"), false
  if not rest then
    rest, secure = tostring(url):match("^[wW][sS][sS](://.*)$"), true
  end
  if not rest then
    return nil, "the URL begins with neither ws:// nor wss://"
  end
  local options = { upgrade = true }
  for name, value in pairs(settings or {}) do
    options[name] = value
  end
  local key = base64.encode(native.random(16))
  local fields = { upgrade = "websocket", ["sec-websocket-version"] = "13", ["sec-websocket-key"] = key }
  for name, value in pairs(header or {}) do
    fields[name] = value
  end
  local stream, problem, why = http.newclient(options):request("GET", (secure and "https" or "http") .. rest, fields, true)
  if not stream then
    return nil, problem, why
  end
  local status, answered = stream:readheader()
  if not status then
    stream:close()
    return nil, answered
  end
  if status ~= 101 or answered["sec-websocket-accept"] ~= answer(key) or not lists(answered.upgrade, "websocket") then
    stream:close()
    return nil, "the server does not switch to WebSocket: status " .. status
  end
  return wrap(stream.conn, stream, true)
end

return websocket
