package records

import (
	"runtime"
	"runtime/debug"
	"time"

	"gpipebench"
	"gpipebench/internal/machine"
)

// Key says which samples may be compared: those of one spec, one profile and, if they
// are timed, one machine. What measured them is in their sessions' provenance.
type Key struct {
	Experiment string `json:"experiment"`
	Profile    string `json:"profile"`
	Spec       string `json:"spec"`    // hash of the spec's text
	Machine    string `json:"machine"` // hash of what times depend on; "" where nothing is timed
}

// Provenance says where numbers come from: what was run, on what, when.
type Provenance struct {
	Time    string            `json:"time"` // RFC 3339, UTC
	Commit  string            `json:"commit,omitempty"`
	Dirty   bool              `json:"dirty"`            // the checkout differed from the commit
	Engine  string            `json:"engine,omitempty"` // gpipebench.Engine; "" of records of earlier versions
	Go      string            `json:"go"`
	Modules map[string]string `json:"modules"`
	Machine machine.Machine   `json:"machine"`
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

// Commit returns the commit that the build has stamped on this program, and whether the checkout
// differed from it; "" if it has none, as with go test, and with go run unless -buildvcs=true.
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
	return commit, dirty
}

// provenance returns this process's, now.
func provenance() Provenance {
	p := Provenance{
		Time: time.Now().UTC().Format(time.RFC3339), Go: runtime.Version(), Engine: gpipebench.Engine(),
		Modules: map[string]string{}, Machine: machine.This(), Load: machine.LoadAverage(),
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
