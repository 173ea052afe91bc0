-- `silly.security.jwt`: tokens of RFC 7519, signed as RFC 7518 says. Times in them are for the script to judge.
local native = ...

local json = require("silly.encoding.json")
local base64 = require("silly.encoding.base64")

local algorithms = {
  HS256 = { kind = "HS", digest = "sha256" },
  HS384 = { kind = "HS", digest = "sha384" },
  HS512 = { kind = "HS", digest = "sha512" },
  RS256 = { kind = "RS", digest = "sha256" },
  RS384 = { kind = "RS", digest = "sha384" },
  RS512 = { kind = "RS", digest = "sha512" },
  ES256 = { kind = "ES", digest = "sha256" },
  ES384 = { kind = "ES", digest = "sha384" },
  ES512 = { kind = "ES", digest = "sha512" },
}

-- Secrets are strings, keys are objects: a token cannot make the one the other by its header.
local function fits(algorithm, key)
  if algorithm.kind == "HS" then
    return type(key) == "string"
  end
  return type(key) == "table"
end

local function sign(algorithm, key, text)
  if algorithm.kind == "HS" then
    return true, native.hmac(key, text, algorithm.digest)
  end
  return pcall(native.pkey_sign, key[1], text, algorithm.digest, "fixed")
end

local function verify(algorithm, key, text, signature)
  if algorithm.kind == "HS" then
    return native.same(native.hmac(key, text, algorithm.digest), signature)
  end
  local good, valid = pcall(native.pkey_verify, key[1], text, signature, algorithm.digest, "fixed")
  return good and valid
end

local jwt = {}

function jwt.encode(payload, key, name)
  name = name or "HS256"
  local algorithm = algorithms[name]
  if not algorithm then
    return nil, "unsupported algorithm: " .. tostring(name)
  end
  if not fits(algorithm, key) then
    return nil, "the key is not one for " .. name
  end
  local header = json.encode({ alg = name, typ = "JWT" })
  local content, problem = json.encode(payload)
  if not content then
    return nil, problem
  end
  local text = base64.urlsafe_encode(header) .. "." .. base64.urlsafe_encode(content)
  local good, signature = sign(algorithm, key, text)
  if not good then
    return nil, signature
  end
  return text .. "." .. base64.urlsafe_encode(signature)
end

local function part(text)
  local bytes = base64.urlsafe_decode(text)
  local value = bytes and json.decode(bytes)
  return type(value) == "table" and value or nil
end

function jwt.decode(token, key)
  if type(token) ~= "string" then
    return nil, "invalid token format"
  end
  local first, second, third = token:match("^([%w_-]+)%.([%w_-]+)%.([%w_-]+)$")
  if not first then
    return nil, "invalid token format"
  end
  local header = part(first)
  if not header then
    return nil, "invalid header"
  end
  local algorithm = algorithms[header.alg]
  if not algorithm or header.crit ~= nil then
    return nil, "unsupported algorithm: " .. tostring(header.alg)
  end
  local signature = base64.urlsafe_decode(third)
  if not signature then
    return nil, "invalid signature"
  end
  if not fits(algorithm, key) or not verify(algorithm, key, first .. "." .. second, signature) then
    return nil, "signature verification failed"
  end
  local payload = part(second)
  if not payload then
    return nil, "invalid payload"
  end
  return payload
end

return jwt
