-- Content of messages of HTTP/1.1 (RFC 9112, 6 and 7), as it is read from a connection.
local errno = require("silly.errno")

local content = {}
local meta = { __index = content }

-- Largest piece that is given at once, and longest line of a chunk.
local PIECE, LINE = 64 * 1024, 4096

-- `length` is a number, "chunked" or "close".
function content.new(conn, length, timeout)
  return setmetatable({ conn = conn, left = length, timeout = timeout, done = length == 0 }, meta)
end

-- What there is, at least a byte and no more than `most`.
local function some(self, most)
  local conn = self.conn
  local ready = conn:unreadbytes()
  if ready == 0 then
    local first, problem = conn:read(1, self.timeout)
    if not first or most == 1 then
      return first, problem
    end
    ready = math.min(conn:unreadbytes(), most - 1)
    if ready == 0 then
      return first
    end
    return first .. conn:read(ready)
  end
  return conn:read(math.min(ready, most))
end

local function fail(self, problem)
  self.problem = problem == errno.EOF and errno.PROTO or problem
  return nil, self.problem
end

local function next_chunk(self)
  local line, problem = self.conn:read("\r\n", self.timeout, LINE)
  if not line then
    return fail(self, problem)
  end
  local digits, rest = line:match("^(%x+)(.*)\r\n$")
  -- RFC 9112, 7.1.1: extensions have no meaning for us, but what they may not hold is not let through.
  if not digits or #digits > 12 or (rest ~= "" and not rest:match("^[ \t]*;[^%z\1-\8\10-\31\127]*$")) then
    return fail(self, errno.PROTO)
  end
  self.chunk = tonumber(digits, 16)
  if self.chunk > 0 then
    return true
  end
  -- Trailers: read, so that they are out of the way.
  local trailers = 0
  repeat
    line, problem = self.conn:read("\r\n", self.timeout, LINE)
    if not line then
      return fail(self, problem)
    end
    trailers = trailers + 1
  until line == "\r\n" or trailers > 64
  if line ~= "\r\n" then
    return fail(self, errno.PROTO)
  end
  self.done = true
  return true
end

-- The next piece, no longer than `most`; nil and errno.EOF at the end.
function content:read(most)
  most = math.min(most or PIECE, PIECE)
  if self.problem then
    return nil, self.problem
  end
  if self.done then
    return nil, errno.EOF
  end
  if self.left == "close" then
    local piece, problem = some(self, most)
    if piece then
      return piece
    end
    if problem == errno.EOF then
      self.done = true
      return nil, errno.EOF
    end
    return fail(self, problem)
  end
  if self.left == "chunked" then
    if not self.chunk or self.chunk == 0 then
      local good, problem = next_chunk(self)
      if not good then
        return nil, problem
      end
      if self.done then
        return nil, errno.EOF
      end
    end
    local piece, problem = some(self, math.min(most, self.chunk))
    if not piece then
      return fail(self, problem)
    end
    self.chunk = self.chunk - #piece
    if self.chunk == 0 then
      local ending, why = self.conn:read(2, self.timeout)
      if ending ~= "\r\n" then
        return fail(self, ending and errno.PROTO or why)
      end
    end
    return piece
  end
  local piece, problem = some(self, math.min(most, self.left))
  if not piece then
    return fail(self, problem)
  end
  self.left = self.left - #piece
  self.done = self.left == 0
  return piece
end

-- All of it, unless it is longer than `limit`.
function content:readall(limit)
  local pieces, length = {}, 0
  if type(self.left) == "number" and self.left > limit then
    return nil, errno.MSGSIZE
  end
  while true do
    local piece, problem = self:read()
    if not piece then
      if problem == errno.EOF then
        return table.concat(pieces)
      end
      return nil, problem
    end
    length = length + #piece
    if length > limit then
      return nil, errno.MSGSIZE
    end
    pieces[#pieces + 1] = piece
  end
end

-- Reads what nobody wants, if it is little; says whether the connection can go on.
function content:drop()
  local dropped = 0
  while not self.done do
    local piece = self:read()
    if not piece then
      break
    end
    dropped = dropped + #piece
    if dropped > PIECE then
      return false
    end
  end
  return self.done
end

return content
