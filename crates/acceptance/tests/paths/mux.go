// The mux of Go's standard library.
package main

import (
	"io"
	"net/http"
	"os"
)

func say(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, text) }
}

func main() {
	mux := http.NewServeMux()
	mux.HandleFunc("/admin/", say("the secret of the admin"))
	mux.HandleFunc("/", say("open"))
	panic(http.ListenAndServe(os.Args[1], mux))
}
