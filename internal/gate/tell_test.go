package gate_test
