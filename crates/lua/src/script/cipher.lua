-- `silly.crypto.cipher`.
local native = ...

local methods = {}
local meta = { __index = methods }

local function make(direction, algorithm, key, iv)
  local object = native.cipher_new(direction, algorithm, key, iv)
  return setmetatable({ object, direction = direction, algorithm = algorithm, padding = true }, meta)
end

function methods:update(data)
  return native.cipher_update(self[1], data)
end

function methods:final(data)
  return native.cipher_final(self[1], data)
end

function methods:reset(key, iv)
  self[1] = native.cipher_new(self.direction, self.algorithm, key, iv)
  native.cipher_padding(self[1], self.padding)
end

function methods:setpadding(enabled)
  self.padding = enabled == true or (type(enabled) == "number" and enabled ~= 0)
  native.cipher_padding(self[1], self.padding)
end

function methods:setaad(data)
  native.cipher_aad(self[1], data)
end

function methods:settag(tag)
  native.cipher_set_tag(self[1], tag)
end

function methods:tag()
  return native.cipher_tag(self[1])
end

return {
  encryptor = function(algorithm, key, iv)
    return make("encrypt", algorithm, key, iv)
  end,
  decryptor = function(algorithm, key, iv)
    return make("decrypt", algorithm, key, iv)
  end,
}
