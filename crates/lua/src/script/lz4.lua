-- `silly.compress.lz4`: frames.
local native = ...

return { compress = native.lz4, decompress = native.unlz4 }
