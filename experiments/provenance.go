package experiments

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"gpipebench/nn"
)

// Provenance says where numbers come from: what was run, on what, when.
type Provenance struct {
	Time    string            `json:"time"` // RFC 3339, UTC
	Commit  string            `json:"commit,omitempty"`
	Dirty   bool              `json:"dirty"` // the checkout had changes beside the commit
	Go      string            `json:"go"`
	Modules map[string]string `json:"modules"`
	Machine Machine           `json:"machine"`
	Load    float64           `json:"load"` // the system's load average of the last minute; -1: unknown
	Process *Process          `json:"process,omitempty"`
}

// Process is one that measures.
type Process struct {
	ID int `json:"id"` // the system's
	// Round, from 0, is the only one that the process measures; nil if it measures
	// whatever there is.
	Round *int `json:"round,omitempty"`
}

// Machine is what times depend on beside the program.
type Machine struct {
	Kernels    string `json:"kernel_profile"`
	CPU        string `json:"cpu"`
	Cores      int    `json:"cores"`
	GOMAXPROCS int    `json:"gomaxprocs"`
	OS         string `json:"os"`
	Arch       string `json:"arch"`
	Go         string `json:"go"`
}

// Key is the machine in few letters.
func (m Machine) Key() string {
	return digest(m.Kernels, m.CPU, strconv.Itoa(m.Cores), strconv.Itoa(m.GOMAXPROCS), m.OS, m.Arch, m.Go)
}

// String is the machine in words.
func (m Machine) String() string {
	return m.CPU + ", " + strconv.Itoa(m.Cores) + " cores, " + m.OS + "/" + m.Arch + ", " + m.Go + ", " + m.Kernels + " kernels"
}

// ThisMachine is the one that this process runs on.
func ThisMachine() Machine {
	return Machine{
		Kernels: kernelProfile(), CPU: cpuModel(), Cores: runtime.NumCPU(), GOMAXPROCS: runtime.GOMAXPROCS(0),
		OS: runtime.GOOS, Arch: runtime.GOARCH, Go: runtime.Version(),
	}
}

func kernelProfile() string { return nn.KernelProfile() }

// provenance describes this process, now.
func provenance() Provenance {
	p := Provenance{
		Time: time.Now().UTC().Format(time.RFC3339), Go: runtime.Version(),
		Modules: map[string]string{}, Machine: ThisMachine(), Load: loadAverage(),
	}
	p.Commit, p.Dirty = Commit()
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			p.Modules[m.Path] = m.Version
		}
	}
	return p
}

// Commit is what this program was built from, as the build stamped it or, run by
// go run or go test, which do not, as git tells of the checkout that its sources
// are in; "" if neither knows. The directory it is started in has no say.
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
	_, source, _, _ := runtime.Caller(0)
	return commitOf(executable, source)
})

// commitOf is the commit of the checkout in which source, a file of this
// directory, was compiled. It is known only where it cannot have moved on since:
// the executable is one that the go command has just made from it to run it, and
// the sources are still those that it was made from.
func commitOf(executable, source string) (commit string, dirty bool) {
	dir := filepath.Dir(source)
	if !builtToRun(executable) || !filepath.IsAbs(dir) || !sameSources(dir) {
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
	if top := git("rev-parse", "--show-toplevel"); top == "" || !sameDir(top, filepath.Dir(dir)) {
		return "", false // the sources are a copy within something else
	}
	return git("rev-parse", "HEAD"), git("status", "--porcelain") != ""
}

// builtToRun tells whether the go command made an executable to run it: it does
// so in directories named go-build..., or in its cache.
func builtToRun(executable string) bool {
	if cache := os.Getenv("GOCACHE"); cache != "" && strings.HasPrefix(executable, filepath.Clean(cache)+string(filepath.Separator)) {
		return true
	}
	return slices.ContainsFunc(strings.Split(filepath.ToSlash(executable), "/"), func(s string) bool { return strings.HasPrefix(s, "go-build") })
}

// sameSources tells whether a directory holds the files that this package was
// compiled from.
func sameSources(dir string) bool {
	files, err := sourceFiles.ReadDir(".")
	if err != nil {
		return false
	}
	for _, f := range files {
		ours, err := sourceFiles.ReadFile(f.Name())
		if err != nil {
			return false
		}
		if theirs, err := os.ReadFile(filepath.Join(dir, f.Name())); err != nil || !bytes.Equal(ours, theirs) {
			return false
		}
	}
	return true
}

func cpuModel() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err == nil {
		for line := range strings.Lines(string(info)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				return strings.TrimSpace(value)
			}
		}
	}
	if runtime.GOOS == "darwin" {
		if brand, err := exec.Command("sysctl", "-n", "machdep.cpu.brand_string").Output(); err == nil {
			return strings.TrimSpace(string(brand))
		}
	}
	return "unknown " + runtime.GOARCH
}

func loadAverage() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err == nil {
		if first, _, ok := strings.Cut(string(text), " "); ok {
			if v, err := strconv.ParseFloat(first, 64); err == nil {
				return v
			}
		}
	}
	return -1
}

// digest is a short hash of some texts.
func digest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(strconv.Itoa(len(p)) + ":" + p))
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}
