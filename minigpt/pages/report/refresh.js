class Refresh { constructor() {} }
