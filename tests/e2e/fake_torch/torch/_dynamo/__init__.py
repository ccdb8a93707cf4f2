from . import eval_frame
