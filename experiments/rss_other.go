//go:build !(linux || darwin)

package experiments

// maxRSS is not known here.
func maxRSS() int64 { return 0 }

// Nor is this.
func processCPU() float64 { return -1 }
