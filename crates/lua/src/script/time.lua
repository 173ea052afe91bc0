-- `silly.time`: milliseconds, and what happens when they are over.
local native = ...

local after = native.after

local time = {
  now = native.now,
  monotonic = native.monotonic,
  sleep = native.sleep,
  cancel = native.cancel,
}

function time.after(ms, body, argument)
  if type(body) ~= "function" then
    error("bad argument #2 to 'after': a function is expected", 2)
  end
  return after(ms, { body, argument })
end

return time
