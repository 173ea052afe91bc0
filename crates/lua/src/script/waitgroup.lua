-- `silly.sync.waitgroup`: waits until all tasks that it started have ended.
local native = ...

local task = require("silly.task")
local silly = require("silly")

local waitgroup = {}
local meta = { __index = waitgroup }

function waitgroup.new()
  return setmetatable({ count = 0, waiter = nil }, meta)
end

function waitgroup:fork(body)
  self.count = self.count + 1
  return task.fork(function()
    local good, problem = silly.pcall(body)
    if not good then
      native.log(3, problem)
    end
    self.count = self.count - 1
    local waiter = self.waiter
    if self.count == 0 and waiter then
      self.waiter = nil
      task.wakeup(waiter)
    end
  end)
end

function waitgroup:wait()
  if self.count == 0 then
    return
  end
  if self.waiter then
    error("another task is waiting for this group", 2)
  end
  self.waiter = task.running()
  task.wait()
end

return waitgroup
