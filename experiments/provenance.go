package experiments

import (
	"crypto/sha256"
	"encoding/hex"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"gpipebench"
	"gpipebench/internal/files"
	"gpipebench/nn"
)

// Provenance says where numbers come from: what was run, on what, when.
type Provenance struct {
	Time    string            `json:"time"` // RFC 3339, UTC
	Commit  string            `json:"commit,omitempty"`
	Dirty   bool              `json:"dirty"`            // the checkout had changes beside the commit
	Engine  string            `json:"engine,omitempty"` // gpipebench.Engine; "" of records of earlier versions
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
		Time: time.Now().UTC().Format(time.RFC3339), Go: runtime.Version(), Engine: gpipebench.Engine(),
		Modules: map[string]string{}, Machine: ThisMachine(), Load: loadAverage(),
	}
	p.Commit, p.Dirty = gpipebench.Commit()
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

// procKind is what is read of the kernel's files.
var procKind = files.Kind{What: "a file of the kernel", Bytes: 16 << 20}

func cpuModel() string {
	info, err := files.Read("/proc/cpuinfo", procKind)
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
	text, err := files.Read("/proc/loadavg", procKind)
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
