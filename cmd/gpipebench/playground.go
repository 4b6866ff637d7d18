package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"runtime"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"gpipebench/playground"
)

// newPlayground returns the command that serves the playground.
func newPlayground() *cobra.Command {
	port, open := 0, true
	cmd := &cobra.Command{
		Use:   "playground",
		Short: "Serve a page that trains networks in a browser",
		Long: `Playground serves a page, to this machine only, that trains small networks in the browser
with this program's engine, cut and scheduled as you choose; they end with the SHA-256
that the program prints. It opens the browser, and serves until it is interrupted. Any
web server can serve the page's files, playground/site, which make playground builds;
served from here, the browser gives the page a more precise clock.`,
		RunE: does(func(ctx context.Context, o *output) error { return servePlayground(ctx, o, port, open) }),
	}
	count(cmd.Flags(), &port, "port", 0, 0, 65535, "port to listen on; 0: any")
	cmd.Flags().BoolVar(&open, "open", true, "open the browser")
	return cmd
}

// servePlayground prints the page's address, and serves it until ctx is done.
func servePlayground(ctx context.Context, o *output, port int, open bool) error {
	site := playground.Site()
	if site == nil {
		return errors.New("this program was built without the playground's page: want a program built by make playground")
	}
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return fmt.Errorf("%w: want another --port, or 0 for any", err)
	}
	defer listener.Close()
	address := "http://" + listener.Addr().String() + "/"
	if err := o.printf("%s\n", address); err != nil {
		return err
	}
	if open {
		if err := openBrowser(address); err != nil {
			o.progress.Say(fmt.Sprintf("no browser can be opened here (%v): open the address in one", err))
		}
	}
	server := &http.Server{Handler: isolated(http.FileServerFS(site)), ReadHeaderTimeout: time.Minute}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// isolated adds the headers for which browsers make a page's clock finer, as no other page can
// then measure this one's memory.
func isolated(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cross-Origin-Opener-Policy", "same-origin")
		w.Header().Set("Cross-Origin-Embedder-Policy", "require-corp")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		h.ServeHTTP(w, r)
	})
}

// openBrowser opens an address in the user's browser.
func openBrowser(address string) error {
	command := []string{"xdg-open", address}
	switch runtime.GOOS {
	case "darwin":
		command[0] = "open"
	case "windows":
		command = []string{"rundll32", "url.dll,FileProtocolHandler", address}
	}
	return exec.Command(command[0], command[1:]...).Start()
}
