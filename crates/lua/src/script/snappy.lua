-- `silly.compress.snappy`: blocks without frames.
local native = ...

return { compress = native.snappy, decompress = native.unsnappy }
