/* The names of the text of a step (stages of stepping/print_explicit.py), for one state: its memory
   moves along without a change, so that all of y is moving. */
typedef double T;
enum { MOVING = POINT };
#define INLINE static inline
#define LOCAL
#define splat(x) (x)
#define field model_field
#define advance model_advance
#define pull model_pull
