; The closed-chain device of Johnson, Murphey: Scalable variational integrators for constrained mechanical systems in
; generalized coordinates. Listing 1 as printed (with its spelling of point-constraint), plus a starting configuration.
(mechanical-system (gravity 0 0 -9.81)
(ry "J" (Name "J")
(tz -0.5 (Name "I") (Mass 1))
(tz -1.0
(ry "H" (Name "H")
(tz -1.0 (Name "G") (Mass 1))
(tz -2.0 (Name "O2")))))
(tx -1.5
(ry "K" (Name "K")
(tz -1.0 (Name "L") (Mass 1))
(tz -2.0
(ry "M" (Name "M")
(tz -0.5 (Name "N") (Mass 1))
(tz -1.0 (Name "O"))))))
(tx 1.5
(ry "A" (Name "A")
(tz -1.0 (Name "B") (Mass 1))
(tz -2.0
(ry "C" (Name "C")
(tz -0.375 (Name "D") (Mass 1))
(tz -0.75
(ry "E" (Name "E")
(tz -0.5 (Name "F") (Mass 1))
(tz -1.0 (Name "G2"))))))))
(point-constaint "G" "G2" (1 0 0))
(point-constaint "G" "G2" (0 0 1))
(point-constaint "O" "O2" (1 0 0))
(point-constaint "O" "O2" (0 0 1))
(configuration "q0"
  ("J" -0.6225520439341904)
  ("H" 1.3475745938911265)
  ("K" 0.09570228531636331)
  ("M" -1.342337336480895)
  ("A" 0.03672044425283091)
  ("C" 1.2814322753663572)
  ("E" 0.9280924883581951)))
