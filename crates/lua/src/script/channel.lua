-- `silly.sync.channel`: values from many tasks to one.
local task = require("silly.task")

local channel = {}
local meta = { __index = channel }

function channel.new()
  return setmetatable({ first = 1, last = 0, reader = nil, closed = nil }, meta)
end

function channel:push(value)
  if self.closed then
    return false, self.closed
  end
  if value == nil then
    error("bad argument #1 to 'push': nil is no value", 2)
  end
  self.last = self.last + 1
  self[self.last] = value
  local reader = self.reader
  if reader then
    self.reader = nil
    task.wakeup(reader)
  end
  return true
end

function channel:pop()
  while self.first > self.last do
    if self.closed then
      return nil, self.closed
    end
    if self.reader then
      error("another task is waiting for this channel", 2)
    end
    self.reader = task.running()
    task.wait()
  end
  local value = self[self.first]
  self[self.first] = nil
  self.first = self.first + 1
  return value
end

function channel:clear()
  for index = self.first, self.last do
    self[index] = nil
  end
  self.first, self.last = 1, 0
end

function channel:close(reason)
  if self.closed then
    return
  end
  self.closed = reason or "channel closed"
  local reader = self.reader
  if reader then
    self.reader = nil
    task.wakeup(reader)
  end
end

return channel
