-- `silly.crypto.hmac`.
local native = ...

return { digest = native.hmac }
