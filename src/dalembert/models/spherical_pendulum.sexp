(mechanical-system (name "spherical_pendulum")
  (rx "theta_x"
    (ry "theta_y"
      (tz -1.0 (name "bob") (mass 1.0))))
  (gravity 0.0 0.0 -9.8)
  (configuration "q0"
    ("theta_x" 0.5)
    ("theta_y" 0.3)))
