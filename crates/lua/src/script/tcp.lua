-- `silly.net.tcp`: connections. Their functions are methods, and functions of the module that get the connection.
local native = ...

local tcp = {}
local listener = {}
local listener_meta = { __index = listener }

for name, body in pairs(native.connection) do
  tcp[name] = body
end

function listener:close()
  return native.close_listener(self[1])
end

-- tcp.listen { addr = ..., accept = function(conn) } or, as up to version 0.6, tcp.listen(addr, function(conn, addr)).
function tcp.listen(addr, accept, backlog)
  if type(addr) == "table" then
    local settings = addr
    addr, accept, backlog = settings.addr, settings.accept or settings.callback, settings.backlog
  end
  if type(addr) ~= "string" then
    error("tcp.listen missing addr", 2)
  end
  if type(accept) ~= "function" then
    error("tcp.listen missing accept", 2)
  end
  local object, number, bound = native.listen(addr, accept)
  if not object then
    return nil, number
  end
  return setmetatable({ object, fd = number, addr = bound, backlog = backlog }, listener_meta)
end

function tcp.connect(addr, settings)
  if type(addr) ~= "string" then
    error("tcp.connect missing addr", 2)
  end
  if type(settings) ~= "table" then
    return native.connect(addr)
  end
  return native.connect(addr, settings.timeout, settings.bind)
end

return tcp
