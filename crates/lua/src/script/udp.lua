-- `silly.net.udp`: datagrams. As for connections, functions of the module get the socket first.
local native = ...

local concat = table.concat
local udp = {}
local meta = { __index = udp }

local function wrap(object, number, address)
  if not object then
    return nil, number
  end
  return setmetatable({ object, fd = number, addr = address }, meta)
end

function udp.bind(address)
  return wrap(native.udp_bind(address))
end

function udp.connect(address, own)
  if type(own) == "table" then
    own = own.bind
  end
  return wrap(native.udp_connect(address, own))
end

function udp:sendto(data, address)
  if type(data) == "table" then
    data = concat(data)
  end
  return native.udp_send(self[1], data, address)
end

function udp:recvfrom(timeout)
  return native.udp_receive(self[1], timeout)
end

function udp:close()
  return native.udp_close(self[1])
end

function udp:isalive()
  return native.udp_isalive(self[1])
end

-- The kernel keeps what waits: a datagram is sent or lost at once, and read when somebody asks for it.
function udp:unsentbytes()
  return 0
end

function udp:unreadbytes()
  return 0
end

udp.sendsize, udp.recvsize = udp.unsentbytes, udp.unreadbytes

return udp
