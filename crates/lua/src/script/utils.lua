-- `silly.crypto.utils`.
local native = ...

return { randomkey = native.random, xor = native.xor }
