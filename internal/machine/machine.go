// Package machine describes what runs the program: processor, kernels, memory, and
// what else keeps it busy.
package machine

import (
	"crypto/sha256"
	"encoding/hex"
	"os/exec"
	"runtime"
	"strconv"
	"strings"

	"gpipebench/internal/files"
	"gpipebench/internal/kernel"
)

// Memory returns the machine's memory in bytes, a terabyte if unknown.
func Memory() int64 {
	if has, _ := MemoryAndSwap(); has > 0 {
		return has
	}
	return 1 << 40
}

// AvailableMemory returns the bytes that processes can have without swapping, the
// machine's memory if that is unknown.
func AvailableMemory() int64 {
	if n := procBytes("/proc/meminfo", "MemAvailable"); n > 0 {
		return n
	}
	return Memory()
}

// Machine is what times depend on, besides the program.
type Machine struct {
	Kernels    string `json:"kernel_profile"`
	CPU        string `json:"cpu"`
	Cores      int    `json:"cores"`
	GOMAXPROCS int    `json:"gomaxprocs"`
	OS         string `json:"os"`
	Arch       string `json:"arch"`
	Go         string `json:"go"`
}

// Key returns the machine in 16 letters.
func (m Machine) Key() string {
	return Digest(m.Kernels, m.CPU, strconv.Itoa(m.Cores), strconv.Itoa(m.GOMAXPROCS), m.OS, m.Arch, m.Go)
}

// String returns the machine in words.
func (m Machine) String() string {
	return m.CPU + ", " + strconv.Itoa(m.Cores) + " cores, " + m.OS + "/" + m.Arch + ", " + m.Go + ", " + m.Kernels + " kernels"
}

// This returns the machine that this process runs on.
func This() Machine {
	return Machine{
		Kernels: kernel.Profile(), CPU: CPUModel(), Cores: runtime.NumCPU(), GOMAXPROCS: runtime.GOMAXPROCS(0),
		OS: runtime.GOOS, Arch: runtime.GOARCH, Go: runtime.Version(),
	}
}

// procKind is what is read of the kernel's files.
var procKind = files.Kind{What: "a file of the kernel", Bytes: 16 << 20}

// procField is what one of them has after a name and a colon; "": nothing.
func procField(file, name string) string {
	text, err := files.Read(file, procKind)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if has, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(has) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// procBytes is the same as a number of bytes; 0: none.
func procBytes(file, name string) int64 {
	kib, _ := strconv.ParseInt(strings.TrimSuffix(procField(file, name), " kB"), 10, 64)
	return kib << 10
}

// CPUModel returns the processor's name.
func CPUModel() string {
	if name := procField("/proc/cpuinfo", "model name"); name != "" {
		return name
	}
	if runtime.GOOS == "darwin" {
		if brand, err := exec.Command("sysctl", "-n", "machdep.cpu.brand_string").Output(); err == nil {
			return strings.TrimSpace(string(brand))
		}
	}
	return "unknown " + runtime.GOARCH
}

// Digest returns a hash of texts in 16 letters.
func Digest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(strconv.Itoa(len(p)) + ":" + p))
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}
