-- `silly.compress.gzip`.
local native = ...

return { compress = native.gzip, decompress = native.gunzip }
