-- `silly.encoding.json`.
local native = ...

local null = setmetatable({}, {
  __tostring = function()
    return "null"
  end,
})
local encode = native.json_encode

return {
  null = null,
  decode = native.json_decode,
  encode = function(value)
    return encode(value, null)
  end,
}
