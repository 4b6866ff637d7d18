// Package accelerators holds the files of the modelled accelerators that come
// with the program, one each; tpuv2.yaml explains the fields, and package
// accelerator reads them.
package accelerators

import "embed"

//go:embed *.yaml
var Files embed.FS
