-- `silly.signal`: what happens when the process gets a signal.
local native = ...

local signal = {}
local handlers = {
  SIGINT = function()
    native.exit(0)
  end,
  SIGTERM = function()
    native.exit(0)
  end,
}
local known = { SIGINT = true, SIGTERM = true, SIGHUP = true, SIGUSR1 = true, SIGUSR2 = true }

native.on_signal(function(name)
  local handler = handlers[name]
  if handler then
    handler(name)
  end
end)

function signal.signal(name, handler)
  if not known[name] then
    error("bad argument #1 to 'signal': there are SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2", 2)
  end
  local old = handlers[name]
  handlers[name] = handler
  return old
end

return setmetatable(signal, {
  __call = function(_, name, handler)
    return signal.signal(name, handler)
  end,
})
