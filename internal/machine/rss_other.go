//go:build !(linux || darwin)

package machine

import "os"

// MaxRSS is not known here.
func MaxRSS() int64 { return 0 }

// MaxRSSOf is not known here.
func MaxRSSOf(*os.ProcessState) int64 { return 0 }

// processCPU is not known here.
func processCPU() float64 { return -1 }
