-- `silly.crypto.hash`.
local native = ...

local methods = {}
local meta = { __index = methods }

function methods:update(data)
  native.hash_update(self[1], data)
  return self
end

function methods:final()
  return native.hash_final(self[1])
end

function methods:digest(data)
  native.hash_reset(self[1])
  native.hash_update(self[1], data)
  return native.hash_final(self[1])
end

function methods:reset()
  native.hash_reset(self[1])
  return self
end

local function new(algorithm)
  return setmetatable({ native.hash_new(algorithm) }, meta)
end

return { new = new, hash = native.hash, digest = native.hash }
