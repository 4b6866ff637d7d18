//go:build !(linux || darwin)

package machine

// MaxRSS is not known here.
func MaxRSS() int64 { return 0 }

// Nor is this.
func processCPU() float64 { return -1 }
