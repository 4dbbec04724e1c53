"""The elastic kernel: clusters give running tasks units of several resources, in world steps."""
