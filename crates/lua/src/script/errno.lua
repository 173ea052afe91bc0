-- `silly.errno`: errors by name. A name that is none has a text, too.
local native = ...

return setmetatable(native.errors(), {
  __index = function(errors, name)
    local text = "Unknown error '" .. tostring(name) .. "'"
    rawset(errors, name, text)
    return text
  end,
})
