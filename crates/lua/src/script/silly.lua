-- `silly`: facts about the program, and what everything else is built from.
local native = ...

local task = require("silly.task")
local facts = native.facts()
local traceback, xpcall = debug.traceback, xpcall

local silly = {
  pid = facts.pid,
  version = facts.version,
  worker = facts.worker,
  gitsha1 = "",
  allocator = "system",
  multiplexer = "epoll",
  timerresolution = 1,
  genid = native.number,
  tostring = tostring,
  -- Up to version 0.6 tasks were here.
  fork = task.fork,
  wait = task.wait,
  wakeup = task.wakeup,
  running = task.running,
}

local function explain(problem)
  return traceback("error: " .. tostring(problem), 2)
end

function silly.pcall(f, ...)
  return xpcall(f, explain, ...)
end

function silly.error(problem)
  native.log(3, tostring(problem), traceback("", 2))
end

function silly.exit(status)
  native.exit(status or 0)
  task.wait()
end

return silly
