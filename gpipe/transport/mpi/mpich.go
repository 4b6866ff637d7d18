//go:build mpich && !mpi

package mpi

// #cgo pkg-config: mpich
import "C"

// Implementation is the name of the MPI that this program was built with; "": none.
const Implementation = "MPICH"
