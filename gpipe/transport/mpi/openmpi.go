//go:build mpi

package mpi

// #cgo pkg-config: ompi
import "C"

// Implementation is the name of the MPI that this program was built with; "": none.
const Implementation = "Open MPI"
