-- `silly.sync.mutex`: one task at a time for each key. The task that holds a key may lock it again.
local task = require("silly.task")

local mutex = {}
local meta = { __index = mutex }
local lock = {}
local lock_meta = { __index = lock }

function mutex.new()
  return setmetatable({ held = {} }, meta)
end

function mutex:lock(key)
  local me = task.running()
  local entry = self.held[key]
  if not entry then
    entry = { owner = me, depth = 0, first = 1, last = 0 }
    self.held[key] = entry
  elseif entry.owner ~= me then
    entry.last = entry.last + 1
    entry[entry.last] = me
    task.wait()
  end
  entry.depth = entry.depth + 1
  return setmetatable({ mutex = self, key = key, entry = entry }, lock_meta)
end

function lock:unlock()
  local entry = self.entry
  if not entry then
    return
  end
  self.entry = nil
  entry.depth = entry.depth - 1
  if entry.depth > 0 then
    return
  end
  local next_one = entry[entry.first]
  if next_one then
    entry[entry.first] = nil
    entry.first = entry.first + 1
    entry.owner = next_one
    task.wakeup(next_one)
  else
    self.mutex.held[self.key] = nil
  end
end

lock_meta.__close = lock.unlock

return mutex
