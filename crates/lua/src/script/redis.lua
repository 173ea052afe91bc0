-- `silly.store.redis`: a client of Redis. All tasks share a connection: what they ask goes out at once, and each reads its own answer
-- when those before it have theirs.
local tcp = require("silly.net.tcp")
local task = require("silly.task")
local errno = require("silly.errno")

local byte, concat, format, tostring, type = string.byte, table.concat, string.format, tostring, type
local tonumber = tonumber

-- Bounds of what a server may send: nesting, elements of an array, and the line that begins a value.
local DEPTH, ELEMENTS, LINE = 32, 1048576, 64 * 1024

local methods = {}

local function text(value)
  if type(value) == "number" then
    if value % 1 == 0 and value > -2 ^ 53 and value < 2 ^ 53 then
      return format("%.0f", value)
    end
    return format("%.17g", value)
  end
  return tostring(value)
end

local function add(parts, command, list, first, last)
  parts[#parts + 1] = "*" .. (last - first + 2) .. "\r\n$" .. #command .. "\r\n" .. command .. "\r\n"
  for index = first, last do
    local value = text(list[index])
    parts[#parts + 1] = "$" .. #value .. "\r\n" .. value .. "\r\n"
  end
end

-- A value: whether it is no error, and the value; or nil and what is wrong with the connection.
local function receive(conn, timeout, depth)
  local line, problem = conn:read("\r\n", timeout, LINE)
  if not line then
    return nil, problem
  end
  local kind, rest = byte(line), line:sub(2, -3)
  if kind == 43 then -- +
    return true, rest
  elseif kind == 45 then -- -
    return false, rest
  elseif kind == 58 then -- :
    local number = tonumber(rest)
    if not number then
      return nil, errno.PROTO
    end
    return true, number
  elseif kind == 36 then -- $
    local length = rest:match("^%-?%d+$") and tonumber(rest)
    if length == -1 then
      return true, nil
    elseif not length or length < 0 then
      return nil, errno.PROTO
    end
    local data, why = conn:read(length + 2, timeout)
    if not data then
      return nil, why
    end
    if data:sub(-2) ~= "\r\n" then
      return nil, errno.PROTO
    end
    return true, data:sub(1, -3)
  elseif kind == 42 then -- *
    local count = rest:match("^%-?%d+$") and tonumber(rest)
    if count == -1 then
      return true, nil
    elseif not count or count < 0 or count > ELEMENTS or depth == 0 then
      return nil, errno.PROTO
    end
    local list = {}
    for index = 1, count do
      local good, value = receive(conn, timeout, depth - 1)
      if good == nil then
        return nil, value
      end
      list[index] = value
    end
    return true, list
  end
  return nil, errno.PROTO
end

-- The connection is of no use any more: everybody who waits hears of it.
local function drop(self, conn, problem)
  if self.conn ~= conn then
    return
  end
  self.conn = false
  conn:close()
  local queue = self.queue
  self.queue = { first = 1, last = 0 }
  for index = queue.first, queue.last do
    local waiter = queue[index]
    if waiter.task then
      waiter.problem = problem
      if not waiter.woken then
        task.wakeup(waiter.task)
      end
    end
  end
end

local function command(self, conn, name, value)
  local parts = {}
  add(parts, name, { value }, 1, 1)
  local good, problem = conn:write(parts)
  if not good then
    return false, problem
  end
  local fine, answer = receive(conn, self.timeout or nil, DEPTH)
  if not fine then
    return false, answer
  end
  return true
end

local function open(self)
  local conn, problem = tcp.connect(self.addr, { timeout = self.connecttimeout })
  if not conn then
    return nil, problem
  end
  for _, step in ipairs({ { "AUTH", self.auth }, { "SELECT", self.database } }) do
    if step[2] then
      local good, why = command(self, conn, step[1], step[2])
      if not good then
        conn:close()
        return nil, why
      end
    end
  end
  return conn
end

-- What a task does that others wait for. Not what keeps the task: one that failed may hold all the memory there is.
local weak = { __mode = "v" }
local function duty()
  return setmetatable({ owner = task.running() }, weak)
end

-- Whether its task has ended in the middle of it: its budget or the memory ran out.
local function is_lost(duty)
  return duty and not (duty.owner and task.status(duty.owner))
end

-- Nobody waits for answers or for a connection that only a task could bring which is no more.
local function give_up_lost(self)
  local queue, opening = self.queue, self.opening
  if self.conn and is_lost(queue[queue.first]) then
    drop(self, self.conn, errno.CONNABORTED)
  end
  if is_lost(opening) then
    self.opening, opening.problem = false, errno.CONNABORTED
    for _, waiter in ipairs(opening) do
      task.wakeup(waiter)
    end
  end
end

-- The connection, made by the first who needs it.
local function connection(self)
  if self.closed then
    return nil, errno.CLOSED
  end
  give_up_lost(self)
  while not self.conn do
    local opening = self.opening
    if opening then
      opening[#opening + 1] = task.running()
      task.wait()
      if not self.conn then
        return nil, opening.problem or errno.CLOSED
      end
    else
      opening = duty()
      self.opening = opening
      local conn, problem = open(self)
      self.opening = false
      if conn and self.closed then
        conn:close()
        conn, problem = nil, errno.CLOSED
      end
      self.conn, opening.problem = conn or false, problem
      for _, waiter in ipairs(opening) do
        task.wakeup(waiter)
      end
      if not conn then
        return nil, problem
      end
    end
  end
  return self.conn
end

-- Sends `parts` and calls `read` with the connection when it is our turn; what `read` returns.
local function exchange(self, parts, read)
  local conn, problem = connection(self)
  if not conn then
    return nil, problem
  end
  local good
  good, problem = conn:write(parts)
  if not good then
    drop(self, conn, problem)
    return nil, problem
  end
  local queue = self.queue
  local mine = duty()
  queue.last = queue.last + 1
  queue[queue.last] = mine
  if queue.last > queue.first then
    mine.task = mine.owner
    task.wait()
    mine.task = nil
    if mine.problem then
      return nil, mine.problem
    end
  end
  local fine, answer = read(conn)
  if fine == nil then
    drop(self, conn, answer)
    return nil, answer
  end
  queue[queue.first] = nil
  queue.first = queue.first + 1
  local next_one = queue[queue.first]
  if next_one then
    next_one.woken = true
    task.wakeup(next_one.task)
  end
  return fine, answer
end

function methods:call(name, first, ...)
  local parts = {}
  if type(first) == "table" then
    add(parts, name:upper(), first, 1, #first)
  else
    local count = select("#", ...)
    add(parts, name:upper(), { first, ... }, 1, first == nil and 0 or count + 1)
  end
  local good, answer = exchange(self, parts, function(conn)
    return receive(conn, self.timeout or nil, DEPTH)
  end)
  return good or false, answer
end

function methods:pipeline(requests, results)
  local parts, count = {}, #requests
  results = results or {}
  if count == 0 then
    return results
  end
  for _, request in ipairs(requests) do
    add(parts, tostring(request[1]):upper(), request, 2, #request)
  end
  local good, problem = exchange(self, parts, function(conn)
    for index = 1, count do
      local fine, value = receive(conn, self.timeout or nil, DEPTH)
      if fine == nil then
        return nil, value
      end
      results[2 * index - 1], results[2 * index] = fine, value
    end
    return true
  end)
  if not good then
    return nil, problem
  end
  return results
end

function methods:close()
  self.closed = true
  if self.conn then
    drop(self, self.conn, errno.CLOSED)
  end
end

function methods.select()
  error("use redis.new { db = ... }: all tasks share the connection", 2)
end

-- Every other name is a command.
local meta = {
  __index = function(_, name)
    local found = methods[name]
    if found then
      return found
    end
    return function(self, ...)
      return methods.call(self, name, ...)
    end
  end,
}

local redis = {}

function redis.new(settings)
  if type(settings) ~= "table" or type(settings.addr) ~= "string" then
    error("redis.new missing addr", 2)
  end
  local self = {
    addr = settings.addr,
    auth = settings.auth or false,
    database = settings.db or false,
    timeout = settings.timeout or false,
    connecttimeout = settings.timeout or 10000,
    queue = { first = 1, last = 0 },
    conn = false,
    opening = false,
    closed = false,
  }
  return setmetatable(self, meta)
end

return redis
