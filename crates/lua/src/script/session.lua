-- Connections of HTTP/2 (RFC 9113), which many messages share: a task reads and hands out what comes, those who serve or
-- ask write. Frames and windows are the codec's.
local native = ...

local task = require("silly.task")
local time = require("silly.time")
local errno = require("silly.errno")
local logger = require("silly.logger")
local silly = require("silly")
local content = require("silly.net.http.content")
local sender = require("silly.net.http.sender")

-- Handlers of a connection that run at once, as many as the codec lets streams be open: clients that reset streams get
-- no more work out of it. Bytes that nobody wants any more and are taken all the same; bytes that a peer may leave
-- unread before it is told nothing more; times in milliseconds.
local HANDLERS, UNWANTED, UNREAD, PIECE = 100, 64 * 1024, 64 * 1024, 64 * 1024
local AGAIN = 20

-- Codes of RFC 9113, 7.
local NO_ERROR, INTERNAL_ERROR, REFUSED_STREAM, CANCEL = 0, 2, 7, 8

local session = {}
local session_meta = { __index = session }

-- A stream of a connection: what `content` and `conn` are to messages of HTTP/1.1.
local channel = {}
local channel_meta = { __index = channel }

-- Waits until `wake` is called for this place; false after `timeout`.
local function wait(self, place, timeout)
  if self[place] then
    error("another task is waiting for this stream", 3)
  end
  local me = task.running()
  self[place] = me
  local timer = time.after(timeout, function()
    if self[place] == me then
      self[place] = nil
      task.wakeup(me, "late")
    end
  end)
  if task.wait() == "late" then
    return false
  end
  time.cancel(timer)
  return true
end

local function wake(self, place)
  local waiting = self[place]
  if waiting then
    self[place] = nil
    task.wakeup(waiting)
  end
end

-- Channels.

local function new_channel(owner, id, length)
  local made = setmetatable({
    session = owner,
    id = id,
    left = length,
    pieces = {},
    first = 1,
    last = 0,
    trailer = {},
    ended = false,
    timeout = owner.timeout,
  }, channel_meta)
  if id then
    owner.channels[id] = made
    owner.count = owner.count + 1
  end
  return made
end

local function remove(self)
  local owner = self.session
  if self.id and owner.channels[self.id] == self then
    owner.channels[self.id] = nil
    owner.count = owner.count - 1
    owner.since = time.monotonic()
    local waiting = table.remove(owner.openers, 1)
    if waiting then
      wake(waiting, "opener")
    elseif owner.closing and owner.count == 0 and not owner.serves then
      owner:close()
    end
  end
end

-- Both sides have said everything.
local function settle(self)
  if self.ended and (self.sent or self.deaf) then
    remove(self)
  end
end

-- What was not read and never will be: others may use the connection's window.
local function release(self)
  local bytes = 0
  for index = self.first, self.last do
    bytes = bytes + #self.pieces[index]
  end
  self.pieces, self.first, self.last = {}, 1, 0
  if bytes > 0 then
    native.h2_consume(self.session.codec, self.id, bytes)
  end
end

-- The stream is gone. What had come to its end before may still be read.
local function fail(self, problem)
  self.gone = self.gone or problem
  self.session.blocked[self] = nil
  if not self.ended then
    self.problem = self.problem or problem
    release(self)
  end
  remove(self)
  wake(self, "reader")
  wake(self, "writer")
end

local function arrive(self, bytes, ended)
  if #bytes > 0 then
    if self.deaf then
      native.h2_consume(self.session.codec, self.id, #bytes)
      self.unwanted = (self.unwanted or 0) + #bytes
      if self.unwanted > UNWANTED and not ended then
        return self:reset(NO_ERROR)
      end
    else
      self.last = self.last + 1
      self.pieces[self.last] = bytes
    end
  end
  if ended then
    self.ended = true
    settle(self)
  end
  wake(self, "reader")
end

-- Nobody reads any more, and all was written.
function channel:forget()
  self.deaf = true
  release(self)
  settle(self)
  self.session:tell()
end

function channel:reset(code)
  native.h2_reset(self.session.codec, self.id or 0, code)
  fail(self, errno.CLOSED)
  self.session:tell()
end

-- The next piece, no longer than `most`; nil and errno.EOF at the end.
function channel:read(most)
  most = math.min(most or PIECE, PIECE)
  while self.first > self.last do
    if self.problem then
      return nil, self.problem
    end
    if self.ended then
      self.done = true
      return nil, errno.EOF
    end
    if not wait(self, "reader", self.timeout) then
      self.problem = errno.TIMEDOUT
      return nil, errno.TIMEDOUT
    end
  end
  local piece = self.pieces[self.first]
  if #piece > most then
    self.pieces[self.first] = piece:sub(most + 1)
    piece = piece:sub(1, most)
  else
    self.pieces[self.first] = nil
    self.first = self.first + 1
  end
  self.done = self.ended and self.first > self.last
  native.h2_consume(self.session.codec, self.id, #piece)
  self.session:tell()
  return piece
end
channel.readall = content.readall

-- Who waits to be told that content is wanted is told (RFC 9110, 10.1.1).
function channel:invite()
  if native.h2_respond(self.session.codec, self.id, 100, nil, nil, "GET", false) then
    self.session:flush()
  end
end

-- Sends content as windows let it through.
local function send(self, data, ended)
  local owner, at = self.session, 1
  repeat
    if self.gone then
      return false, self.gone
    end
    local taken = native.h2_data(owner.codec, self.id, data, at, ended)
    if not taken then
      return false, errno.CLOSED
    end
    at = at + taken
    local good, problem = owner:flush()
    if not good then
      return false, problem
    end
    if taken == 0 and at <= #data and not self.gone then
      owner.blocked[self] = true
      if not wait(self, "writer", self.timeout) then
        owner.blocked[self] = nil
        self:reset(CANCEL)
        return false, errno.TIMEDOUT
      end
    end
  until at > #data
  return true
end

-- What is sent of a message, as `sender` sends it over HTTP/1.1. `begin(length, ended)` sends the head.
local outlet = {}
local outlet_meta = { __index = outlet }

local function new_outlet(owner, header, empty, begin, level)
  return setmetatable({
    channel = owner,
    left = sender.stated_length(header, level + 1),
    empty = empty,
    begin = begin,
  }, outlet_meta)
end

function outlet:flush(length, ended)
  if self.begun then
    return true
  end
  self.begun = true
  self.left = self.left or length
  return self.begin(self.empty ~= "nothing" and self.left or nil, ended or false)
end

function outlet:write(data)
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
  if self.empty or data == "" then
    return true
  end
  if self.left then
    if #data > self.left then
      return false, errno.MSGSIZE
    end
    self.left = self.left - #data
  end
  return send(self.channel, data, false)
end

local function finish(self, data, last)
  local bare = not self.begun and data == "" and not last and (self.empty or not self.left or self.left == 0)
  local good, problem = self:flush(not last and #data or nil, bare)
  if not good or bare then
    return good, problem
  end
  if self.empty then
    data = ""
  elseif self.left and #data ~= self.left then
    -- Less or more than was promised: the peer must not take it for the whole.
    return false, errno.MSGSIZE
  end
  if data ~= "" or not last then
    good, problem = send(self.channel, data, not last)
    if not good or not last then
      return good, problem
    end
  end
  local owner = self.channel.session
  if not native.h2_trailers(owner.codec, self.channel.id, last) then
    return false, self.channel.gone or errno.CLOSED
  end
  return owner:flush()
end

function outlet:finish(data, trailer, level)
  if self.ended then
    return false, errno.CLOSED
  end
  data = data or ""
  if self.empty and not self.begun and self.empty ~= "nothing" then
    self.left = self.left or #data
  end
  local last = trailer and next(trailer) and sender.pairs(trailer, (level or 1) + 1) or nil
  local good, problem = finish(self, self.empty and "" or data, last)
  self.ended = true
  if not good then
    self.broken = true
    return false, problem
  end
  self.channel.sent = true
  settle(self.channel)
  return true
end

-- The server's answer.
function channel:answer(status, fields, about, level)
  local made
  made = new_outlet(self, about.header, about.empty, function(length, ended)
    if self.gone then
      return false, self.gone
    end
    if not native.h2_respond(self.session.codec, self.id, status, fields, length, about.method, ended) then
      return false, errno.CLOSED
    end
    return self.session:flush()
  end, level + 1)
  return made
end

-- Opens a stream with a request when there is room for one; false and "closing", with nothing sent, if the connection takes
-- no more.
local function request(self, parts, fields, length, ended)
  local owner = self.session
  while owner:isopen() do
    local id, why = native.h2_request(owner.codec, parts, fields, length, ended)
    if id then
      self.id = id
      owner.channels[id] = self
      owner.count = owner.count + 1
      return owner:flush()
    elseif why == "closing" and owner.settled then
      owner:retire()
    elseif why ~= "full" and why ~= "closing" then
      return false, errno.INVAL
    else
      local openers = owner.openers
      openers[#openers + 1] = self
      if not wait(self, "opener", self.timeout) then
        for index, waiting in ipairs(owner.openers) do
          if waiting == self then
            table.remove(owner.openers, index)
            break
          end
        end
        return false, errno.TIMEDOUT
      end
    end
  end
  return false, "closing"
end

-- A client's request. Heads go out with the first of the content; if the connection takes no more requests by then,
-- `again` gives a channel of another one.
function channel:ask(parts, about, again, level)
  local fields = sender.pairs(about.header, level + 1)
  local made
  made = new_outlet(self, about.header, nil, function(length, ended)
    if ended and about.none and length == 0 then
      length = nil
    end
    local good, problem = request(made.channel, parts, fields, length, ended)
    if problem == "closing" then
      local other, why = again()
      if other then
        made.channel = other
        good, problem = request(other, parts, fields, length, ended)
      else
        problem = why
      end
    end
    if good then
      return true
    end
    problem = problem == "closing" and errno.CONNRESET or problem
    made.channel.problem = made.channel.problem or problem
    return false, problem
  end, level + 1)
  return made
end

-- The head of the answer.
function channel:receive()
  while not self.head do
    if self.problem then
      return nil, self.problem
    end
    if not wait(self, "reader", self.timeout) then
      -- Whoever asks next had better not ask here.
      self.session:retire()
      return nil, errno.TIMEDOUT
    end
  end
  return self.head
end

-- Sessions.

local function new_session(conn, codec, timeout)
  return setmetatable({
    conn = conn,
    codec = codec,
    timeout = timeout,
    channels = {},
    count = 0,
    blocked = {},
    openers = {},
    handlers = 0,
    since = time.monotonic(),
  }, session_meta)
end

-- Writes what the codec has to say.
function session:flush()
  local bytes = native.h2_take(self.codec)
  if not bytes then
    return true
  end
  return self.conn:write(bytes)
end

-- The same for what only answers the peer: if it does not read, that waits in the codec, which bounds it.
function session:tell()
  if self.over then
    return
  end
  if self.conn:unsentbytes() <= UNREAD then
    self:flush()
  elseif not self.later then
    self.later = true
    time.after(AGAIN, function()
      self.later = false
      self:tell()
    end)
  end
end

-- The end of the connection, for whoever uses it.
local function close(self, problem)
  if self.over then
    return
  end
  self:flush()
  self.over = true
  self.conn:close()
  local left = {}
  for _, one in pairs(self.channels) do
    left[#left + 1] = one
  end
  for _, one in ipairs(left) do
    fail(one, problem)
  end
  for _, waiting in ipairs(self.openers) do
    wake(waiting, "opener")
  end
  self.openers = {}
end

function session:isopen()
  return not self.over and not self.closing and self.conn:isalive()
end

function session:isidle(since)
  return self.count == 0 and self.since <= since
end

-- Takes no more requests; those under way come to their end.
function session:retire()
  self.closing = true
  if self.count == 0 then
    self:close()
  end
end

function session:channel()
  return new_channel(self)
end

-- Ends it in peace.
function session:close()
  if not self.over then
    native.h2_end(self.codec)
    close(self, errno.CLOSED)
  end
end

local function wake_blocked(self, id)
  if id > 0 then
    local one = self.channels[id]
    if one then
      self.blocked[one] = nil
      wake(one, "writer")
    end
    return
  end
  -- Until the peer has said how many streams it takes, there may be too many without an end of them.
  self.settled = true
  local blocked = self.blocked
  self.blocked = {}
  for one in pairs(blocked) do
    wake(one, "writer")
  end
  for _, waiting in ipairs(self.openers) do
    wake(waiting, "opener")
  end
  self.openers = {}
end

local acts = { window = wake_blocked }

function acts:head(id, ended, head)
  self.on_head(self, id, ended, head)
end

-- A request that cannot be served.
function acts:refused(id, ended, status, word)
  if self.channels[id] then
    return fail(self.channels[id], errno.PROTO)
  end
  local fields = { "date", sender.date(), "content-type", "text/plain" }
  if native.h2_respond(self.codec, id, status, fields, #word + 1, "GET", false) then
    native.h2_data(self.codec, id, word .. "\n", 1, true)
  end
  if not ended then
    native.h2_reset(self.codec, id, NO_ERROR)
  end
end

function acts:data(id, ended, bytes)
  local one = self.channels[id]
  if one then
    arrive(one, bytes, ended)
  elseif #bytes > 0 then
    native.h2_consume(self.codec, id, #bytes)
  end
end

function acts:trailers(id, ended, fields)
  local one = self.channels[id]
  if one then
    for name, value in pairs(fields) do
      one.trailer[name] = value
    end
    arrive(one, "", ended)
  end
end

function acts:reset(id, refused)
  local one = self.channels[id]
  if one then
    one.refused = refused
    fail(one, errno.CONNRESET)
  end
end

function acts:failed(id)
  local one = self.channels[id]
  if one then
    fail(one, errno.PROTO)
  end
end

function acts:goaway()
  if not self.serves then
    self:retire()
  end
end

function acts.pong() end

-- Hands out what has come; false at the end of the connection.
local function hand_out(self)
  while not self.over do
    local what, id, ended, more, word = native.h2_next(self.codec)
    if not what then
      self:tell()
      return true
    end
    if what == "broken" then
      close(self, errno.PROTO)
      return false
    end
    acts[what](self, id, ended, more, word)
  end
  return false
end

-- How long nothing may come: a connection without streams is not kept for ever.
local function patience(self)
  if not self.serves or self.handlers > 0 then
    return self.timeout
  end
  return math.max(self.since + self.timeout - time.monotonic(), 1)
end

local function pump(self)
  local conn = self.conn
  while not self.over do
    local piece, problem = conn:read(1, patience(self))
    if piece then
      native.h2_feed(self.codec, piece)
      local more = math.min(conn:unreadbytes(), PIECE)
      if more > 0 then
        native.h2_feed(self.codec, conn:read(more))
      end
      if not hand_out(self) then
        return
      end
    elseif problem ~= errno.TIMEDOUT then
      return close(self, problem == errno.EOF and errno.CONNRESET or problem)
    end
    if self.serves and self.handlers == 0 and patience(self) == 1 then
      return self:close()
    end
  end
end

local function run(self)
  local good, problem = silly.pcall(pump, self)
  if not good then
    logger.error(problem)
    close(self, errno.CLOSED)
  end
end

-- Serves a connection until its end; `begun` was read already. `serve(request, channel)` is called for each request, in a
-- task of its own.
function session.serve(conn, begun, timeout, serve)
  local self = new_session(conn, native.h2_server(), timeout)
  self.serves = true
  self.on_head = function(_, id, ended, request)
    if self.handlers >= HANDLERS then
      return native.h2_reset(self.codec, id, REFUSED_STREAM)
    end
    local made = new_channel(self, id, request.length)
    made.ended, made.done = ended, ended
    self.handlers = self.handlers + 1
    task.fork(function()
      local good, problem = silly.pcall(serve, request, made)
      self.handlers = self.handlers - 1
      self.since = time.monotonic()
      if not good then
        logger.error(problem)
        made:reset(INTERNAL_ERROR)
      end
    end)
  end
  self:flush()
  native.h2_feed(self.codec, begun)
  run(self)
end

-- Asks over a connection, which is read by a task of its own.
function session.connect(conn, timeout)
  local self = new_session(conn, native.h2_client(), timeout)
  self.on_head = function(_, id, ended, head)
    local one = self.channels[id]
    if one and not head.interim then
      one.head, one.left = head, head.length
      if ended then
        one.done = true
      end
      arrive(one, "", ended)
    end
  end
  self:flush()
  task.fork(run, self)
  return self
end

session.INTERNAL_ERROR, session.CANCEL = INTERNAL_ERROR, CANCEL

return session
