-- The service of the suite silly, which also says over HTTP that it is there.
local tcp = require "silly.net.tcp"
local readline, write = tcp.readline, tcp.write

tcp.listen("127.0.0.1:@PORT@", function(fd)
    while true do
        local line = readline(fd, "\r\n")
        if not line then
            return
        end
        if line == "PING\r\n" then
            write(fd, "+PONG\r\n")
        elseif line:find("^GET ") then
            write(fd, "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n")
            return tcp.close(fd)
        end
    end
end)
