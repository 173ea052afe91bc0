-- `silly.crypto.pkey`.
local native = ...

local methods = {}
local meta = { __index = methods }

function methods:sign(message, digest)
  return native.pkey_sign(self[1], message, digest)
end

function methods:verify(message, signature, digest)
  return native.pkey_verify(self[1], message, signature, digest)
end

function methods:encrypt(message, padding, digest)
  return native.pkey_encrypt(self[1], message, padding, digest)
end

function methods:decrypt(message, padding, digest)
  return native.pkey_decrypt(self[1], message, padding, digest)
end

return {
  RSA_PKCS1 = 1,
  RSA_NO = 3,
  RSA_PKCS1_OAEP = 4,
  RSA_X931 = 5,
  new = function(text)
    local object, problem = native.pkey_new(text)
    if not object then
      return nil, problem
    end
    return setmetatable({ object }, meta)
  end,
}
