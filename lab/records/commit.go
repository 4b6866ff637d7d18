package records

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"gpipebench"
	"gpipebench/internal/files"
)

// Commit returns the commit that this program was built from: the build's stamp or,
// with go run and go test, which stamp nothing, what git reports of the checkout
// that holds the sources; "" if neither knows. It does not depend on the working
// directory.
func Commit() (commit string, dirty bool) {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				commit = s.Value
			case "vcs.modified":
				dirty = s.Value == "true"
			}
		}
	}
	if commit != "" {
		return commit, dirty
	}
	return gitCommit()
}

var gitCommit = sync.OnceValues(func() (string, bool) {
	executable, err := os.Executable()
	if err != nil {
		return "", false
	}
	return commitOf(executable, root())
})

// root returns the root of the checkout in which this package was compiled; with
// -trimpath it is not absolute.
func root() string {
	_, source, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(filepath.Dir(source)))
}

// commitOf returns the commit of the checkout whose root is dir. It is known only if the checkout cannot have changed since:
// the go command has just built the executable to run it, and the sources are still
// those that it was built from.
func commitOf(executable, dir string) (commit string, dirty bool) {
	if !builtToRun(executable) || !filepath.IsAbs(dir) || !sameEngine(dir) {
		return "", false
	}
	git := func(args ...string) string {
		c := exec.Command("git", append([]string{"-C", dir}, args...)...)
		// GIT_DIR and its like name another repository.
		c.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GIT_") })
		out, err := c.Output()
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(out))
	}
	if top := git("rev-parse", "--show-toplevel"); top == "" || !files.SameDir(top, dir) {
		return "", false // the sources are a copy within something else
	}
	return git("rev-parse", "HEAD"), git("status", "--porcelain") != ""
}

// builtToRun reports whether the go command built an executable to run it: it
// builds these in directories named go-build..., or in its cache.
func builtToRun(executable string) bool {
	if cache := os.Getenv("GOCACHE"); cache != "" && strings.HasPrefix(executable, filepath.Clean(cache)+string(filepath.Separator)) {
		return true
	}
	return slices.ContainsFunc(strings.Split(filepath.ToSlash(executable), "/"), func(s string) bool { return strings.HasPrefix(s, "go-build") })
}

// sameEngine reports whether a checkout holds the engine that this program has.
func sameEngine(dir string) bool {
	engine, err := gpipebench.EngineIn(os.DirFS(dir))
	return err == nil && engine == gpipebench.Engine()
}
