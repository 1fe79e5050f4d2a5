package local_test

import (
	"testing"

	"gated/internal/driver/drivertest"
	"gated/internal/driver/local/localtest"
)

func TestConformance(t *testing.T) {
	drivertest.Run(t, func(t *testing.T) drivertest.World { return localtest.New(t) })
}
