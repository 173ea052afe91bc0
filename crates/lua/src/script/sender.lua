-- What is sent of a message of HTTP/1.1: a head, and content in the framing that fits it.
local native = ...

local errno = require("silly.errno")

local sender = {}
local meta = { __index = sender }

local line = native.http_line

-- What the framing settles itself.
local own = { connection = true, ["transfer-encoding"] = true, ["content-length"] = true, ["keep-alive"] = true }

-- A head in parts; what cannot be a field is an error, so that no value begins another line.
local function lines(first, header, level)
  local parts = { first }
  for name, value in pairs(header or {}) do
    name = tostring(name)
    if not own[name:lower()] then
      for _, one in ipairs(type(value) == "table" and value or { value }) do
        local text = line(name, tostring(one))
        if not text then
          error("'" .. name .. "' cannot be a field with this value", level + 1)
        end
        parts[#parts + 1] = text
      end
    end
  end
  return parts
end

local function stated_length(header, level)
  for name, value in pairs(header or {}) do
    if tostring(name):lower() == "content-length" then
      local length = tonumber(value)
      if not length or length < 0 or length % 1 ~= 0 then
        error("content-length is no number of bytes", level + 1)
      end
      return length
    end
  end
end

-- The same as names and values in turn, for HTTP/2; names in lower case (RFC 9113, 8.2.1).
function sender.pairs(header, level)
  local parts = {}
  for name, value in pairs(header or {}) do
    name = tostring(name):lower()
    if not own[name] then
      for _, one in ipairs(type(value) == "table" and value or { value }) do
        one = tostring(one)
        if not line(name, one) then
          error("'" .. name .. "' cannot be a field with this value", level + 1)
        end
        parts[#parts + 1] = name
        parts[#parts + 1] = one
      end
    end
  end
  return parts
end

sender.stated_length = stated_length

local stamp, stamped = "", 0
-- The value of `Date` (RFC 9110, 6.6.1); made once in a second.
function sender.date()
  local now = os.time()
  if now ~= stamped then
    stamp, stamped = os.date("!%a, %d %b %Y %H:%M:%S GMT", now), now
  end
  return stamp
end

-- `settings`: conn, whether the head itself says there is no content (`empty`), whether chunks may be used (`chunks`), whether an
-- absent length means none (`none`), and what to say of the connection (`connection`).
function sender.new(first, header, settings, level)
  return setmetatable({
    parts = lines(first, header, level + 1),
    left = stated_length(header, level + 1),
    conn = settings.conn,
    empty = settings.empty,
    chunks = settings.chunks,
    none = settings.none,
    connection = settings.connection,
  }, meta)
end

-- Sends the head, if it is still to be sent; `length` is that of the whole content, if it is known.
function sender:flush(length)
  local parts = self.parts
  if not parts then
    return true
  end
  self.parts = nil
  if not self.left then
    self.left = length
  end
  if self.empty then
    if self.left and self.empty ~= "nothing" then
      parts[#parts + 1] = "content-length: " .. ("%.0f"):format(self.left) .. "\r\n"
    end
  elseif self.left then
    if not (self.none and self.left == 0) then
      parts[#parts + 1] = "content-length: " .. ("%.0f"):format(self.left) .. "\r\n"
    end
  elseif self.chunks then
    self.chunked = true
    parts[#parts + 1] = "transfer-encoding: chunked\r\n"
  else
    -- It ends with the connection (RFC 9112, 6.3).
    self.closes = true
    self.connection = "close"
  end
  if self.connection then
    parts[#parts + 1] = "connection: " .. self.connection .. "\r\n"
  end
  parts[#parts + 1] = "\r\n"
  return self.conn:write(parts)
end

local function put(self, data)
  if self.empty or data == "" then
    return true
  end
  if self.chunked then
    return self.conn:write({ ("%x\r\n"):format(#data), data, "\r\n" })
  end
  if self.left then
    if #data > self.left then
      return false, errno.MSGSIZE
    end
    self.left = self.left - #data
  end
  return self.conn:write(data)
end

function sender:write(data)
  if self.ended then
    return false, errno.CLOSED
  end
  if type(data) == "table" then
    data = table.concat(data)
  end
  local good, problem = self:flush()
  if not good then
    return false, problem
  end
  return put(self, data)
end

-- The last of it. A trailer needs chunks.
function sender:finish(data, trailer, level)
  if self.ended then
    return false, errno.CLOSED
  end
  data = data or ""
  local last = trailer and next(trailer) and lines("", trailer, (level or 1) + 1) or nil
  local good, problem = self:flush(not last and #data or nil)
  if not good then
    return false, problem
  end
  good, problem = put(self, data)
  self.ended = true
  if not good then
    self.broken = true
    return false, problem
  end
  if self.chunked and not self.empty then
    return self.conn:write("0\r\n" .. (last and table.concat(last) or "") .. "\r\n")
  end
  if self.left and self.left > 0 and not self.empty then
    -- Less than was promised: the peer must not take the next message for the rest.
    self.broken = true
    return false, errno.MSGSIZE
  end
  return true
end

return sender
