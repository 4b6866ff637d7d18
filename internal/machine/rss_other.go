//go:build !(linux || darwin)

package machine

import "os"

// MaxRSS is not known here.
func MaxRSS() int64 { return 0 }

// MaxRSSOf is not known here.
func MaxRSSOf(*os.ProcessState) int64 { return 0 }

// ProcessorSeconds is not known here.
func ProcessorSeconds() float64 { return -1 }
