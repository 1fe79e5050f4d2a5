package memory_test

import (
	"testing"

	"gated/internal/driver/drivertest"
	"gated/internal/driver/memory/memorytest"
)

func TestConformance(t *testing.T) {
	drivertest.Run(t, func(t *testing.T) drivertest.World { return memorytest.New(t) })
}
