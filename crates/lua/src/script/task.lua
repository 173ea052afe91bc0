-- `silly.task`: coroutines that the loop drives.
local native = ...

local traceback = debug.traceback

local task = {
  fork = native.fork,
  running = native.running,
  wait = native.wait,
  wakeup = native.wakeup,
  status = native.status,
  readycount = native.ready,
}

function task.inspect()
  local found = {}
  for thread, status in pairs(native.all()) do
    found[thread] = { status = status, traceback = traceback(thread) }
  end
  return found
end

return task
