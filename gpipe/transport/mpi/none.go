//go:build !mpi && !mpich

package mpi

import (
	"context"
	"errors"
)

// Implementation is the name of the MPI that this program was built with; "": none.
const Implementation = ""

// Built returns nil if this program was built with MPI, and else how to do that.
func Built() error {
	return errors.New("this program was built without MPI: want one of go build -tags mpi ./cmd/gpipebench (Open MPI) or -tags mpich (MPICH)")
}

func initialise(context.Context) (*connections, error) { return nil, Built() }
