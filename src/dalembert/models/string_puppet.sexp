(mechanical-system (name "string_puppet")
  (tx "torso.tx"
    (ty "torso.ty"
      (tz "torso.tz"
        (rz "torso.rz"
          (ry "torso.ry"
            (rx "torso.rx" (name "torso") (mass 2.0) (inertia 0.05 0.04 0.03)
              (tx -0.2 (name "left_shoulder")
                (tz 0.25
                  (ry "left_shoulder_y"
                    (rx "left_shoulder_x"
                      (tz -0.15 (mass 0.3) (inertia 0.003 0.003 0.001))
                      (tz -0.3
                        (rx "left_elbow"
                          (tz -0.3 (name "left_hand") (mass 0.2) (inertia 0.002 0.002 0.001))))))))
              (tx 0.2 (name "right_shoulder")
                (tz 0.25
                  (ry "right_shoulder_y"
                    (rx "right_shoulder_x"
                      (tz -0.15 (mass 0.3) (inertia 0.003 0.003 0.001))
                      (tz -0.3
                        (rx "right_elbow"
                          (tz -0.3 (name "right_hand") (mass 0.2) (inertia 0.002 0.002 0.001))))))))
              (tz 0.3
                (ty -0.1 (name "back")))))))))
  (tx 0.0
    (ty -0.1
      (tz 2.0 (name "back_winch"))))
  (tx -0.2
    (ty 0.3
      (tz 2.0 (name "left_winch"))))
  (tx 0.2
    (ty 0.3
      (tz 2.0 (name "right_winch"))))
  (gravity 0.0 0.0 -9.8)
  (distance "back" "back_winch" (K "back"))
  (distance "left_hand" "left_winch" (K "left"))
  (distance "right_hand" "right_winch" (K "right"))
  (configuration "q0"
    ("torso.tx" 0.0)
    ("torso.ty" 0.0)
    ("torso.tz" 0.0)
    ("torso.rz" 0.0)
    ("torso.ry" 0.0)
    ("torso.rx" 0.0)
    ("left_shoulder_y" 0.0)
    ("left_shoulder_x" 0.3)
    ("left_elbow" 1.2)
    ("right_shoulder_y" 0.0)
    ("right_shoulder_x" 0.3)
    ("right_elbow" 1.2)
    ("back" 1.7)
    ("left" 2.0596987732071415)
    ("right" 2.0596987732071415)))
